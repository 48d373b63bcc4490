#pragma once

#include <string>
#include <vector>

#include "classes/signature.h"

// How forms of signatures are written.
namespace traingraph::python {

// "Sequence[int]" with the module that it is of.
std::string with_modules(std::string text);
// The arguments of "weights: MLCTensor, biases: MLCTensor | None = None".
std::vector<Parameter> parse_form(const std::string& text);

}  // namespace traingraph::python
