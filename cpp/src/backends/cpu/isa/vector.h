#pragma once

#include <cstdint>

// Vectors of floats by the compiler's vector extension: arithmetic and comparisons work element by
// element, `c ? a : b` selects. Everything here is per instruction level.
namespace traingraph::cpu::TRAINGRAPH_ISA {

#if defined(__AVX512F__)
inline constexpr int kLanes = 16;
#elif defined(__AVX__)
inline constexpr int kLanes = 8;
#else
inline constexpr int kLanes = 4;
#endif

#define TRAINGRAPH_INLINE __attribute__((always_inline)) inline

template <int kCount>
struct VectorOf {
  typedef float type __attribute__((vector_size(4 * kCount)));
  typedef float unaligned __attribute__((vector_size(4 * kCount), aligned(4), may_alias));
  typedef std::int32_t integers __attribute__((vector_size(4 * kCount)));
};
template <>
struct VectorOf<1> {
  using type = float;
  using unaligned = float;
  using integers = std::int32_t;
};

using Vector = VectorOf<kLanes>::type;
using Integers = VectorOf<kLanes>::integers;

template <int kCount = kLanes>
TRAINGRAPH_INLINE typename VectorOf<kCount>::type load(const float* x) {
  return *reinterpret_cast<const typename VectorOf<kCount>::unaligned*>(x);
}
template <int kCount = kLanes>
TRAINGRAPH_INLINE void store(float* x, typename VectorOf<kCount>::type v) {
  *reinterpret_cast<typename VectorOf<kCount>::unaligned*>(x) = v;
}
// Subtracting zero changes no value, not even the sign of zero; the compiler knows.
template <int kCount = kLanes>
TRAINGRAPH_INLINE typename VectorOf<kCount>::type splat(float x) {
  return x - typename VectorOf<kCount>::type{};
}

// The sum of the lanes in a fixed order.
TRAINGRAPH_INLINE float sum_of(Vector v) {
  float halves[kLanes];
  store(halves, v);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) halves[i] += halves[i + width];
  }
  return halves[0];
}

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
