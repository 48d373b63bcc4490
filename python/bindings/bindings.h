#pragma once

#include "classes/bound_class.h"
#include "convert/python.h"

// One function per family; module.cpp calls them in the order that base classes need.
namespace traingraph::python {

// Properties and factories of the enumerations' classes.
void bind_enum_members();
void bind_device(py::module_& module);
void bind_tensor_data(py::module_& module);
void bind_tensor(py::module_& module);
void bind_layers(py::module_& module);
void bind_optimizers(py::module_& module);
void bind_execution(py::module_& module);
void bind_graphs(py::module_& module);
void bind_distributed(py::module_& module);
void bind_records(py::module_& module);
void bind_notebook(const py::module_& module);
void bind_check_gradients(py::module_& module);
void bind_nn(py::module_& module);
void bind_mps(py::module_& module);
void list_exports(py::module_& module);

}  // namespace traingraph::python
