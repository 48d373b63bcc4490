// Vectors of floats by the compiler's vector extension: arithmetic and comparisons work element by
// element, `c ? a : b` selects. Everything here is per instruction level.
#pragma once

#include <cstdint>
#include <utility>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace traingraph::cpu::TRAINGRAPH_ISA {

#if defined(__AVX512F__)
inline constexpr std::int64_t kLanes = 16;
#elif defined(__AVX__)
inline constexpr std::int64_t kLanes = 8;
#else
inline constexpr std::int64_t kLanes = 4;
#endif
// Each float lane adds at most this many numbers.
inline constexpr std::int64_t kStretch = 64;

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
// Past the caches, where the machine can; x is aligned to a vector.
TRAINGRAPH_INLINE void stream(float* x, Vector v) {
#if defined(__AVX512F__)
  _mm512_stream_ps(x, v);
#elif defined(__AVX__)
  _mm256_stream_ps(x, v);
#elif defined(__SSE2__)
  _mm_stream_ps(x, v);
#else
  store(x, v);
#endif
}
// Other threads see what was streamed before.
TRAINGRAPH_INLINE void finish_streaming() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}
TRAINGRAPH_INLINE bool is_aligned(const float* x) {
  return reinterpret_cast<std::uintptr_t>(x) % (4 * kLanes) == 0;
}
// Subtracting zero changes no value, not even the sign of zero; the compiler knows.
template <int kCount = kLanes>
TRAINGRAPH_INLINE typename VectorOf<kCount>::type splat(float x) {
  return x - typename VectorOf<kCount>::type{};
}

// The first `count` lanes of a vector, 0 < count <= kLanes; what lies behind them is never touched.
class Partial {
 public:
  explicit Partial(std::int64_t count) : count_(count) {
#if defined(__AVX512F__)
    mask_ = static_cast<__mmask16>((1u << count) - 1);
#elif defined(__AVX__)
    for (int i = 0; i < kLanes; ++i) mask_[i] = i < count ? -1 : 0;
#endif
  }
  std::int64_t count() const { return count_; }
#if defined(__AVX512F__)
  __mmask16 mask() const { return mask_; }
#endif

  // Other lanes become zero.
  TRAINGRAPH_INLINE Vector load(const float* x) const {
#if defined(__AVX512F__)
    return _mm512_maskz_loadu_ps(mask_, x);
#elif defined(__AVX__)
    return _mm256_maskload_ps(x, reinterpret_cast<__m256i>(mask_));
#else
    Vector v{};
    for (int i = 0; i < kLanes; ++i) {
      if (i < count_) v[i] = x[i];
    }
    return v;
#endif
  }
  // v with other lanes zero.
  TRAINGRAPH_INLINE Vector keep(Vector v) const {
#if defined(__AVX512F__)
    return _mm512_maskz_mov_ps(mask_, v);
#elif defined(__AVX__)
    return mask_ != 0 ? v : Vector{};
#else
    for (int i = 0; i < kLanes; ++i) {
      if (i >= count_) v[i] = 0;
    }
    return v;
#endif
  }
  TRAINGRAPH_INLINE void store(float* x, Vector v) const {
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(x, mask_, v);
#elif defined(__AVX__)
    // On AMD's processors a masked store takes a dozen cycles, of a whole vector, too.
    if (count_ == kLanes) return _mm256_storeu_ps(x, v);
    __m128 rest = _mm256_castps256_ps128(v);
    if ((count_ & 4) != 0) {
      _mm_storeu_ps(x, rest);
      rest = _mm256_extractf128_ps(v, 1);
      x += 4;
    }
    if ((count_ & 2) != 0) {
      _mm_storel_pi(reinterpret_cast<__m64*>(x), rest);
      rest = _mm_movehl_ps(rest, rest);
      x += 2;
    }
    if ((count_ & 1) != 0) _mm_store_ss(x, rest);
#else
    for (int i = 0; i < kLanes; ++i) {
      if (i < count_) x[i] = v[i];
    }
#endif
  }

 private:
#if defined(__AVX512F__)
  __mmask16 mask_;
#elif defined(__AVX__)
  Integers mask_;
#endif
  std::int64_t count_;
};

// Lanes [kFirst, kFirst + kCount) of a wider vector.
template <int kFirst, int kCount, class V, int... kI>
TRAINGRAPH_INLINE typename VectorOf<kCount>::type part(V v, std::integer_sequence<int, kI...>) {
  return __builtin_shufflevector(v, v, (kFirst + kI)...);
}

// Four lanes that sum up to the sum of all, halves added to halves.
template <int kCount = kLanes>
TRAINGRAPH_INLINE VectorOf<4>::type quarter_sum(typename VectorOf<kCount>::type v) {
  using Four = std::make_integer_sequence<int, 4>;
  if constexpr (kCount == 16) {
    using Eight = std::make_integer_sequence<int, 8>;
    const auto half = part<0, 8>(v, Eight{}) + part<8, 8>(v, Eight{});
    return part<0, 4>(half, Four{}) + part<4, 4>(half, Four{});
  } else if constexpr (kCount == 8) {
    return part<0, 4>(v, Four{}) + part<4, 4>(v, Four{});
  } else {
    return v;
  }
}

// The sum of the lanes in a fixed order.
TRAINGRAPH_INLINE float sum_of(Vector v) {
  const VectorOf<4>::type four = quarter_sum(v);
  return (four[0] + four[2]) + (four[1] + four[3]);
}

// The sums of four vectors, each in the order of sum_of.
TRAINGRAPH_INLINE VectorOf<4>::type sums_of(Vector a, Vector b, Vector c, Vector d) {
  const auto p = quarter_sum(a), q = quarter_sum(b), r = quarter_sum(c), s = quarter_sum(d);
  const auto pq = __builtin_shufflevector(p, q, 0, 1, 4, 5) +
                  __builtin_shufflevector(p, q, 2, 3, 6, 7);  // a02 a13 b02 b13
  const auto rs =
      __builtin_shufflevector(r, s, 0, 1, 4, 5) + __builtin_shufflevector(r, s, 2, 3, 6, 7);
  return __builtin_shufflevector(pq, rs, 0, 2, 4, 6) + __builtin_shufflevector(pq, rs, 1, 3, 5, 7);
}

// One round of a transposition: exchanges the off-diagonal squares of side kStep of two rows.
template <int kStep, class Row, int... kI>
TRAINGRAPH_INLINE void exchange(Row& a, Row& b, std::integer_sequence<int, kI...>) {
  constexpr int kCount = sizeof...(kI);
  const Row low = __builtin_shufflevector(a, b, ((kI & kStep) == 0 ? kI : kCount + kI - kStep)...);
  b = __builtin_shufflevector(a, b, ((kI & kStep) == 0 ? kI + kStep : kCount + kI)...);
  a = low;
}

// A square of elements of any type.
template <int kStep = 1, class Row, int kCount>
TRAINGRAPH_INLINE void transpose(Row (&rows)[kCount]) {
  if constexpr (kStep < kCount) {
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) {
      if ((i & kStep) == 0) {
        exchange<kStep>(rows[i], rows[i + kStep], std::make_integer_sequence<int, kCount>{});
      }
    }
    transpose<2 * kStep>(rows);
  }
}

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
