#pragma once

#include "bindings.h"
#include "classes/bound_class.h"
#include "convert/convert.h"

namespace traingraph::python {

// A value, or a number as one. Raises TypeError.
nn::Value to_value(py::handle value, const Where& where);
// The extents of a sample: one number, or several. Raises TypeError.
Shape to_sample(py::handle value, const Where& where);
// What arrays have and a value has not: each says what is there in its place.
void bind_array_operators(BoundClass<nn::Value>& cls);
void bind_nn_values(py::module_& module);
void bind_nn_sequences(py::module_& module);
void bind_nn_optimizers(py::module_& module);

}  // namespace traingraph::python
