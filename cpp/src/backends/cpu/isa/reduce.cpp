// Sums and sums of squares along a row, and of neighbouring columns at once in vector lanes.
#include "backends/cpu/isa/reduce.h"

#include <bit>

#include "backends/cpu/isa/vector.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {
namespace {

template <bool kSquares, class V>
TRAINGRAPH_INLINE V term(V x) {
  return kSquares ? x * x : x;
}

template <bool kSquares>
double row(const float* x, std::int64_t n) {
  double sum = 0;
  while (n >= kLanes) {
    // Four sums hide the latency of an addition.
    Vector a{}, b{}, c{}, d{};
    std::int64_t groups = n / (4 * kLanes);
    if (groups > kStretch) groups = kStretch;
    for (std::int64_t g = 0; g < groups; ++g, x += 4 * kLanes) {
      a += term<kSquares>(load(x));
      b += term<kSquares>(load(x + kLanes));
      c += term<kSquares>(load(x + 2 * kLanes));
      d += term<kSquares>(load(x + 3 * kLanes));
    }
    n -= groups * 4 * kLanes;
    if (groups < kStretch) {
      for (; n >= kLanes; n -= kLanes, x += kLanes) a += term<kSquares>(load(x));
    }
    sum += static_cast<double>(sum_of((a + b) + (c + d)));
  }
  float rest = 0;
  for (std::int64_t i = 0; i < n; ++i) rest += term<kSquares>(x[i]);
  return sum + static_cast<double>(rest);
}

// kVectors vectors of kCount columns.
template <bool kSquares, std::int64_t kCount, int kVectors>
void column_group(double* sums, const float* x, std::int64_t rows, std::int64_t stride) {
  using V = typename VectorOf<kCount>::type;
  while (rows > 0) {
    const std::int64_t stretch = rows < 2 * kStretch ? rows : 2 * kStretch;
    V even[kVectors]{}, odd[kVectors]{};
    std::int64_t r = 0;
    for (; r + 2 <= stretch; r += 2, x += 2 * stride) {
      for (int k = 0; k < kVectors; ++k) {
        even[k] += term<kSquares>(load<kCount>(x + k * kCount));
        odd[k] += term<kSquares>(load<kCount>(x + stride + k * kCount));
      }
    }
    if (r < stretch) {
      for (int k = 0; k < kVectors; ++k) even[k] += term<kSquares>(load<kCount>(x + k * kCount));
      x += stride;
    }
    rows -= stretch;
    float lanes[kCount * kVectors];
    for (int k = 0; k < kVectors; ++k) store<kCount>(lanes + k * kCount, even[k] + odd[k]);
    for (int j = 0; j < kCount * kVectors; ++j) sums[j] += static_cast<double>(lanes[j]);
  }
}

template <bool kSquares>
void columns(double* sums, const float* x, std::int64_t rows, std::int64_t stride,
             std::int64_t width) {
  constexpr int kWide = 4;
  std::int64_t j = 0;
  for (; j + kWide * kLanes <= width; j += kWide * kLanes) {
    column_group<kSquares, kLanes, kWide>(sums + j, x + j, rows, stride);
  }
  for (; j + kLanes <= width; j += kLanes) {
    column_group<kSquares, kLanes, 1>(sums + j, x + j, rows, stride);
  }
  if constexpr (kLanes > 8) {
    for (; j + 8 <= width; j += 8) column_group<kSquares, 8, 1>(sums + j, x + j, rows, stride);
  }
  if constexpr (kLanes > 4) {
    for (; j + 4 <= width; j += 4) column_group<kSquares, 4, 1>(sums + j, x + j, rows, stride);
  }
  for (; j < width; ++j) column_group<kSquares, 1, 1>(sums + j, x + j, rows, stride);
}

std::int64_t count_not_finite(const float* x, std::int64_t n) {
  constexpr std::int64_t kBlock = 1 << 20;  // whose count is an int
  std::int64_t all = 0;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t end = n - begin < kBlock ? n : begin + kBlock;
    std::int32_t count = 0;
#pragma omp simd reduction(+ : count)
    for (std::int64_t i = begin; i < end; ++i) {
      count += (std::bit_cast<std::uint32_t>(x[i]) & 0x7f800000u) == 0x7f800000u ? 1 : 0;
    }
    all += count;
  }
  return all;
}

}  // namespace

extern const ReduceLoops reduce_loops;
const ReduceLoops reduce_loops{
    {row<false>, columns<false>}, {row<true>, columns<true>}, count_not_finite};

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
