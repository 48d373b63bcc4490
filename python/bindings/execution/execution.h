#pragma once

#include "bindings.h"

namespace traingraph::python {

// Adds execute, and for training graphs its three parts, to a class. They are methods of Python's
// fast calling convention: a small step takes less time than a generic dispatcher.
void def_training_execution(py::handle cls);
void def_inference_execution(py::handle cls);

}  // namespace traingraph::python
