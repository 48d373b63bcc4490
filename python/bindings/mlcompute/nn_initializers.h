#pragma once

#include "bindings.h"
#include "classes/signature.h"

namespace traingraph::python {

// The annotation of what weights and biases begin with.
constexpr const char* kInitializer = "str | float | Callable[[tuple[int, ...]], ArrayLike] | None";

// Raises TypeError. The function is called when the weights are made, with the GIL.
nn::Initializer initializer_of(const Arguments& given, const char* name);

}  // namespace traingraph::python
