#pragma once

#include "bindings.h"
#include "signature.h"

namespace traingraph::python {

// MLCTensor's initialisers.
void bind_tensor_forms(py::class_<Tensor, TensorPtr>& cls);

// One array per optimizer buffer, in the tensor's shape and type.
void bind_optimizer_data(Tensor& tensor, const Arguments& arguments, const char* argument = "data");

}  // namespace traingraph::python
