#pragma once

#include "bindings.h"
#include "classes/signature.h"

namespace traingraph::python {

// MLCTensor's initialisers.
void bind_tensor_forms(BoundClass<Tensor, TensorPtr>& cls);

// quantized and dequantized.
void bind_quantization(BoundClass<Tensor, TensorPtr>& cls);

// The opaque device twin of one optimizer buffer.
struct OptimizerDeviceData {
  TensorPtr tensor;
  std::size_t slot;
};

// One array per optimizer buffer, in the tensor's shape and type.
void bind_optimizer_data(Tensor& tensor, const Arguments& arguments, const char* argument = "data");

}  // namespace traingraph::python
