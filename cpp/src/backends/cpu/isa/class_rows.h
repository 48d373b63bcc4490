// Helpers of the softmax and cross entropy loops: exponential, sums and maxima over classes. A row
// lies along memory (inner == 1): vectors hold classes and a sum ends across lanes. Or positions
// do: vectors hold positions, each lane is a row of its own.
#pragma once

#include "backends/cpu/isa/softmax.h"
#include "backends/cpu/isa/vector.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {

#if defined(__AVX512F__)
// 2^(i / 32).
alignas(64) inline constexpr float kRoots[32] = {
    1.0f,        1.02189715f, 1.04427378f, 1.0671404f,  1.09050773f, 1.11438674f, 1.13878863f,
    1.16372486f, 1.18920712f, 1.21524736f, 1.24185781f, 1.26905096f, 1.29683955f, 1.32523664f,
    1.35425555f, 1.38390988f, 1.41421356f, 1.44518081f, 1.47682615f, 1.50916443f, 1.54221083f,
    1.57598085f, 1.61049033f, 1.64575548f, 1.68179283f, 1.7186193f,  1.75625216f, 1.79470908f,
    1.83400809f, 1.87416763f, 1.91520656f, 1.95714412f};
#endif

// e^x for x up to 88; what would be denormal is 0.
TRAINGRAPH_INLINE Vector exponential(Vector x) {
  constexpr float kLowest = -87.33654f;
#if defined(__AVX512F__)
  // 2^n 2^(i / 32) 2^r. Adding 1.5 * 2^18 rounds to a 32nd and leaves i in the low bits; the
  // instruction that scales takes n, the floor, and leaves 0 where its mask says so.
  const Vector shifted = x * 1.44269504088896341f + 393216.0f;
  const Vector n = shifted - 393216.0f;
  const Vector r = (x * 1.44269502f - n) + x * 1.92596299e-8f;
  const Vector root = _mm512_maskz_permutex2var_ps(
      0xffff, load(kRoots), _mm512_castps_si512(shifted), load(kRoots + kLanes));
  const Vector p = (r * root) * (r * 2.4022651e-1f + 6.9315734e-1f) + root;
  const __mmask16 normal = _mm512_cmp_ps_mask(x, splat(kLowest), _CMP_NLT_UQ);
  return _mm512_maskz_scalef_ps(normal, p, n);
#else
  const Vector shifted = x * 1.44269504088896341f + 12582912.0f;
  const Vector n = shifted - 12582912.0f;
  const Vector r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Vector p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = (p * (r * r) + r) + 1.0f;
  const Integers power = (Integers(shifted) - 0x4b400000 + 127) << 23;
  p *= Vector(power);
  return x < kLowest ? Vector{} : p;
#endif
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

// The larger of each lane; NaN in v is passed over.
TRAINGRAPH_INLINE Vector larger(Vector v, Vector best) {
#if defined(__AVX512F__)
  return _mm512_maskz_max_ps(0xffff, v, best);
#elif defined(__AVX__)
  return _mm256_max_ps(v, best);
#else
  return best < v ? v : best;
#endif
}

// Halves beside halves.
template <int kCount = kLanes>
TRAINGRAPH_INLINE float largest_lane(typename VectorOf<kCount>::type v) {
  if constexpr (kCount == 2) {
    return v[0] < v[1] ? v[1] : v[0];
  } else {
    constexpr int kHalf = kCount / 2;
    using Half = std::make_integer_sequence<int, kHalf>;
    const auto low = part<0, kHalf>(v, Half{}), high = part<kHalf, kHalf>(v, Half{});
    return largest_lane<kHalf>(low < high ? high : low);
  }
}

// The largest element; NaN is passed over, and shows in the sums. Several vectors side by side,
// because each comparison waits for the one before.
TRAINGRAPH_INLINE float largest_of(const float* x, std::int64_t n) {
  const float lowest = -__builtin_inff();
  Vector best[4] = {splat(lowest), splat(lowest), splat(lowest), splat(lowest)};
  std::int64_t k = 0;
  for (; k + 4 * kLanes <= n; k += 4 * kLanes) {
    for (int i = 0; i < 4; ++i) best[i] = larger(load(x + k + i * kLanes), best[i]);
  }
  for (; k + kLanes <= n; k += kLanes) best[0] = larger(load(x + k), best[0]);
  // What is left lies in a last vector, of which others have seen the rest.
  if (k < n && n >= kLanes) best[1] = larger(load(x + n - kLanes), best[1]);
  float result = largest_lane(larger(larger(best[0], best[1]), larger(best[2], best[3])));
  for (; k < n && n < kLanes; ++k) result = result < x[k] ? x[k] : result;
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
