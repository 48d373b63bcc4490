#pragma once

#include <cstdint>

namespace traingraph::cpu {

// Sums in float lanes over short stretches, which are then added up in float64.
struct SumLoops {
  // Σ x[i], i in [0, n)
  double (*row)(const float* x, std::int64_t n);
  // sums[j] += Σ x[r * stride + j], r in [0, rows), j in [0, width)
  void (*columns)(double* sums, const float* x, std::int64_t rows, std::int64_t stride,
                  std::int64_t width);
};

struct ReduceLoops {
  SumLoops sum;
  SumLoops sum_of_squares;
  // How many of n elements are NaN or infinite.
  std::int64_t (*count_not_finite)(const float* x, std::int64_t n);
};

}  // namespace traingraph::cpu
