// Row norm of one row and its gradient, with statistics in float64.
#include "backends/cpu/isa/row_norm.h"

#include "backends/cpu/isa/vector.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {

extern const RowNormLoops row_norm_loops;

namespace {

// Partial sums, so that one addition need not wait for the one before; added up in a fixed order.
constexpr int kSums = 32;

// The sum of term(k) for k in [0, count).
template <class Term>
TRAINGRAPH_INLINE double sum_of(std::int64_t count, const Term& term) {
  double parts[kSums] = {};
  std::int64_t k = 0;
  for (; k + kSums <= count; k += kSums) {
#pragma omp simd
    for (int j = 0; j < kSums; ++j) parts[j] += term(k + j);
  }
  for (int j = 0; k + j < count; ++j) parts[j] += term(k + j);
  for (int width = kSums / 2; width > 0; width /= 2) {
    for (int j = 0; j < width; ++j) parts[j] += parts[j + width];
  }
  return parts[0];
}

struct RowStatistics {
  double mean, variance, inverse;
};

TRAINGRAPH_INLINE RowStatistics statistics_of(const float* x, std::int64_t count, double epsilon) {
  const auto n = static_cast<double>(count);
  const double mean = sum_of(count, [x](std::int64_t k) { return static_cast<double>(x[k]); }) / n;
  const double squares = sum_of(count, [x, mean](std::int64_t k) {
    const double centered = static_cast<double>(x[k]) - mean;
    return centered * centered;
  });
  return {mean, squares / n, 1 / __builtin_sqrt(squares / n + epsilon)};
}

void forward(const float* x, std::int64_t count, double epsilon, float* y, float* mean,
             float* inverse, float* variance) {
  const RowStatistics s = statistics_of(x, count, epsilon);
#pragma omp simd
  for (std::int64_t k = 0; k < count; ++k) {
    y[k] = static_cast<float>((static_cast<double>(x[k]) - s.mean) * s.inverse);
  }
  *mean = static_cast<float>(s.mean);
  *inverse = static_cast<float>(s.inverse);
  *variance = static_cast<float>(s.variance);
}

void gradient(const float* dy, const float* x, std::int64_t count, double epsilon, float* dx) {
  const RowStatistics s = statistics_of(x, count, epsilon);
  const auto n = static_cast<double>(count);
  const double mean =
      sum_of(count, [dy](std::int64_t k) { return static_cast<double>(dy[k]); }) / n;
  const auto normal = [x, s](std::int64_t k) __attribute__((always_inline)) {
    return (static_cast<double>(x[k]) - s.mean) * s.inverse;
  };
  const double along =
      sum_of(count,
             [dy, &normal](std::int64_t k) { return static_cast<double>(dy[k]) * normal(k); }) /
      n;
#pragma omp simd
  for (std::int64_t k = 0; k < count; ++k) {
    const double moved = (static_cast<double>(dy[k]) - mean) - normal(k) * along;
    dx[k] = static_cast<float>(s.inverse * moved);
  }
}

}  // namespace

const RowNormLoops row_norm_loops{forward, gradient};

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
