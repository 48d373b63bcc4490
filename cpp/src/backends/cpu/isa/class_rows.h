// Helpers of the softmax and cross entropy loops: exponential, sums and maxima over classes. A row
// lies along memory (inner == 1): vectors hold classes and a sum ends across lanes. Or positions
// do: vectors hold positions, each lane is a row of its own.
#pragma once

#include "backends/cpu/isa/softmax.h"
#include "backends/cpu/isa/vector.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {

// e^x for x up to 88; what would be denormal is 0.
TRAINGRAPH_INLINE Vector exponential(Vector x) {
  constexpr float kLowest = -87.33654f;
  const Vector shifted = x * 1.44269504088896341f + 12582912.0f;
  const Vector n = shifted - 12582912.0f;
  const Vector r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Vector p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = (p * (r * r) + r) + 1.0f;
#if defined(__AVX512F__)
  // The masked form: GCC 12 warns of an uninitialised operand inside the plain one.
  p = _mm512_maskz_scalef_ps(0xffff, p, n);
#else
  const Integers power = (Integers(shifted) - 0x4b400000 + 127) << 23;
  p *= Vector(power);
#endif
  return x < kLowest ? Vector{} : p;
}

// Elements [begin, end) of a row of which vectors are full but for the last one.
template <class Body>
TRAINGRAPH_INLINE void each_vector(std::int64_t begin, std::int64_t end, const Body& full,
                                   const auto& part) {
  std::int64_t k = begin;
  for (; k + kLanes <= end; k += kLanes) full(k);
  if (k < end) part(k, Partial(end - k));
}

// Σ term(k) over the vectors of a row, in float lanes over short stretches and float64 beyond.
// term takes (k) and (k, part); the second one's other lanes have to be zero.
template <class Term>
TRAINGRAPH_INLINE double sum_row(std::int64_t n, const Term& term) {
  constexpr std::int64_t kStretch = 64 * kLanes;
  double sum = 0;
  for (std::int64_t begin = 0; begin < n; begin += kStretch) {
    const std::int64_t end = begin + kStretch < n ? begin + kStretch : n;
    Vector even{}, odd{};
    std::int64_t k = begin;
    for (; k + 2 * kLanes <= end; k += 2 * kLanes) {
      even += term(k);
      odd += term(k + kLanes);
    }
    for (; k + kLanes <= end; k += kLanes) even += term(k);
    if (k < end) odd += term(k, Partial(end - k));
    sum += static_cast<double>(sum_of(even + odd));
  }
  return sum;
}

// The largest element; NaN is passed over, and shows in the sums.
TRAINGRAPH_INLINE float largest_of(const float* x, std::int64_t n) {
  const float lowest = -__builtin_inff();
  Vector best = splat(lowest);
  std::int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes) {
    const Vector v = load(x + k);
    best = best < v ? v : best;
  }
  float lanes[kLanes];
  store(lanes, best);
  float result = lowest;
  for (int i = 0; i < kLanes; ++i) result = result < lanes[i] ? lanes[i] : result;
  for (; k < n; ++k) result = result < x[k] ? x[k] : result;
  return result;
}

// Σ term(k), k in [0, n), lane by lane.
template <class Term>
TRAINGRAPH_INLINE Vector sum_positions(std::int64_t n, const Term& term) {
  constexpr std::int64_t kStretch = 32;
  Vector sum{};
  for (std::int64_t begin = 0; begin < n; begin += kStretch) {
    const std::int64_t end = begin + kStretch < n ? begin + kStretch : n;
    Vector stretch{};
    for (std::int64_t k = begin; k < end; ++k) stretch += term(k);
    sum += stretch;
  }
  return sum;
}

template <class Read>
TRAINGRAPH_INLINE Vector largest_of_positions(std::int64_t n, const Read& read) {
  Vector best = splat(-__builtin_inff());
  for (std::int64_t k = 0; k < n; ++k) {
    const Vector v = read(k);
    best = best < v ? v : best;
  }
  return best;
}

// body(offset of class 0, number of the position, positions there) for each vector of the units
// [begin, end).
template <class Body>
TRAINGRAPH_INLINE void each_position_vector(ClassRows rows, std::int64_t begin, std::int64_t end,
                                            const Body& body) {
  const std::int64_t per_outer = (rows.inner + kUnitPositions - 1) / kUnitPositions;
  for (std::int64_t unit = begin; unit < end; ++unit) {
    const std::int64_t outer = unit / per_outer;
    const std::int64_t first = unit % per_outer * kUnitPositions;
    const std::int64_t last =
        first + kUnitPositions < rows.inner ? first + kUnitPositions : rows.inner;
    for (std::int64_t i = first; i < last; i += kLanes) {
      body(outer * rows.classes * rows.inner + i, outer * rows.inner + i,
           last - i < kLanes ? last - i : kLanes);
    }
  }
}

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
