#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "ir/graph.h"

// The private module `traingraph._testing`: internals of the core for tests in Python. It holds a
// copy of the core, so its objects and those of `traingraph` never meet.
namespace traingraph::testing {

namespace py = pybind11;

// testing.cpp lists these; each lives in the file of its name.
void bind_graph(py::module_& module);
void bind_scalar_table(py::module_& module);
void bind_random(py::module_& module);
void bind_allocations(py::module_& module);
void bind_device(py::module_& module);
void bind_layouts(py::module_& module);
void bind_plans(py::module_& module);
void bind_networks(py::module_& module);
void bind_launch_groups(py::module_& module);
void bind_streams(py::module_& module);
void bind_forks(py::module_& module);
void bind_coding(py::module_& module);
void bind_nodes(py::module_& module);
void bind_check_gradients(py::module_& module);
void bind_data_sources(py::module_& module);
void bind_locales(py::module_& module);
void bind_mistakes(py::module_& module);

// An op's attributes from a dictionary of their fields; what is not named keeps its default.
ir::Attributes attributes_from(ir::Op op, const py::dict& fields);

// "float32", … as NumPy spells it; raises InvalidArgument for other names.
DataType data_type_named(const std::string& text);

}  // namespace traingraph::testing
