#pragma once

#include <optional>
#include <string>

#include "convert/python.h"

namespace traingraph::python {

// For an object or a function of PyTorch's, Keras' and the like: "; did you mean nn.dense?", ""
// where nobody can tell. Nothing for another value.
std::optional<std::string> advice_on_other_library(py::handle value);

}  // namespace traingraph::python
