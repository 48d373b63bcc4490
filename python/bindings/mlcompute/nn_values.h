#pragma once

#include "bindings.h"
#include "convert/convert.h"

namespace traingraph::python {

// A value, or a number as one. Raises TypeError.
nn::Value to_value(py::handle value, const Where& where);
void bind_nn_values(py::module_& module);
void bind_nn_sequences(py::module_& module);
void bind_nn_optimizers(py::module_& module);

}  // namespace traingraph::python
