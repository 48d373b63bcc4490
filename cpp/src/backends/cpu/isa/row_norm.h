#pragma once

#include <cstdint>

namespace traingraph::cpu {

// One row of `count` neighbours; sums are of float64.
struct RowNormLoops {
  // Each of mean, inverse deviation and variance gets one number.
  void (*forward)(const float* x, std::int64_t count, double epsilon, float* y, float* mean,
                  float* inverse, float* variance);
  void (*gradient)(const float* dy, const float* x, std::int64_t count, double epsilon, float* dx);
};

}  // namespace traingraph::cpu
