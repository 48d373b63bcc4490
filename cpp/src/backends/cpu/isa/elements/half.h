#pragma once

#include <cstddef>
#include <cstdint>

namespace traingraph::cpu {

// As runtime/numbers/half.h, of whole arrays: of float16, then of bfloat16.
struct HalfLoops {
  void (*widen[2])(const std::uint16_t* x, float* y, std::int64_t n);
  void (*narrow[2])(const float* x, std::uint16_t* y, std::int64_t n);
  // dx = dy where y is above 0 or NaN, else 0; dx may lie over either
  void (*relu_gradient[2])(const std::uint16_t* dy, const std::uint16_t* y, std::uint16_t* dx,
                           std::int64_t n);
};

}  // namespace traingraph::cpu
