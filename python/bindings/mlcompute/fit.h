#pragma once

#include "bindings.h"

namespace traingraph::python {

// Adds predict, and to training graphs fit and evaluate.
void add_fit(const py::module_& module);

}  // namespace traingraph::python
