#pragma once

#include <utility>

#include <traingraph/tensor.h>

#include "ir/type.h"

namespace traingraph {

// A parameter of a small layer. Parameters never have 16 bits: what layers read is widened.
inline TensorPtr sample_parameter(Shape shape, DataType type) {
  return Tensor::create(
      TensorDescriptor(std::move(shape), ir::is_half(type) ? DataType::kFloat32 : type));
}

}  // namespace traingraph
