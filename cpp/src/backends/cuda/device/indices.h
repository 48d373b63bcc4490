#pragma once

#include <cstddef>
#include <cstdint>

// Index tensors of int32 or int64. For .cu files only.
namespace traingraph::cuda {

struct Indices {
  const std::byte* data;
  bool wide;

  __device__ std::int64_t operator[](std::int64_t at) const {
    return wide ? reinterpret_cast<const std::int64_t*>(data)[at]
                : reinterpret_cast<const std::int32_t*>(data)[at];
  }
};

}  // namespace traingraph::cuda
