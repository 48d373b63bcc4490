// Vectors of floats from elements of 16 bits and back: what runtime/numbers/half.h says of one
// number, within registers.
#pragma once

#include <concepts>
#include <cstring>

#include "backends/cpu/isa/vector.h"
#include "runtime/numbers/half.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {

struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

template <class T>
concept Half = std::same_as<T, Float16> || std::same_as<T, BFloat16>;

// An element as float32.
TRAINGRAPH_INLINE float number(float x) { return x; }
TRAINGRAPH_INLINE float number(Float16 x) { return widened_float16(x.bits); }
TRAINGRAPH_INLINE float number(BFloat16 x) { return widened_bfloat16(x.bits); }
TRAINGRAPH_INLINE Float16 rounded(float x, Float16) { return {narrowed_float16(x)}; }
TRAINGRAPH_INLINE BFloat16 rounded(float x, BFloat16) { return {narrowed_bfloat16(x)}; }

// As many elements of 16 bits as a vector has lanes.
typedef std::uint16_t Halves __attribute__((vector_size(2 * kLanes)));
typedef std::uint32_t Bits __attribute__((vector_size(4 * kLanes)));

TRAINGRAPH_INLINE Vector widened(Halves x, Float16) {
#if defined(__AVX512F__)
  return _mm512_maskz_cvtph_ps(0xffff, reinterpret_cast<__m256i>(x));
#elif defined(__F16C__)
  return _mm256_cvtph_ps(reinterpret_cast<__m128i>(x));
#else
  Vector v;
  for (int i = 0; i < kLanes; ++i) v[i] = widened_float16(x[i]);
  return v;
#endif
}
// GCC writes the conversions of bfloat16 with more instructions.
TRAINGRAPH_INLINE Vector widened(Halves x, BFloat16) {
#if defined(__AVX512F__)
  const __m512i wide = _mm512_maskz_cvtepu16_epi32(0xffff, reinterpret_cast<__m256i>(x));
  return reinterpret_cast<Vector>(_mm512_maskz_slli_epi32(0xffff, wide, 16));
#elif defined(__AVX2__)
  const __m256i wide = _mm256_cvtepu16_epi32(reinterpret_cast<__m128i>(x));
  return reinterpret_cast<Vector>(_mm256_slli_epi32(wide, 16));
#else
  return reinterpret_cast<Vector>(__builtin_convertvector(x, Bits) << 16);
#endif
}

TRAINGRAPH_INLINE Halves narrowed(Vector v, Float16) {
#if defined(__AVX512F__)
  return reinterpret_cast<Halves>(_mm512_maskz_cvtps_ph(0xffff, v, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
  return reinterpret_cast<Halves>(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
#else
  Halves x;
  for (int i = 0; i < kLanes; ++i) x[i] = narrowed_float16(v[i]);
  return x;
#endif
}
TRAINGRAPH_INLINE Halves narrowed(Vector v, BFloat16) {
  const Bits bits = reinterpret_cast<Bits>(v);
  const Bits rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
#if defined(__AVX512F__)
  const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  const __m512i kept =
      _mm512_mask_or_epi32(reinterpret_cast<__m512i>(rounded), is_nan,
                           reinterpret_cast<__m512i>(bits), _mm512_set1_epi32(0x400000));
  return reinterpret_cast<Halves>(
      _mm512_maskz_cvtepi32_epi16(0xffff, _mm512_maskz_srli_epi32(0xffff, kept, 16)));
#elif defined(__AVX2__)
  const __m256 quiet = reinterpret_cast<__m256>(bits | 0x400000u);
  const __m256 kept =
      _mm256_blendv_ps(reinterpret_cast<__m256>(rounded), quiet, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const __m256i all = _mm256_srli_epi32(reinterpret_cast<__m256i>(kept), 16);
  return reinterpret_cast<Halves>(
      _mm_packus_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)));
#else
  const Bits kept = v == v ? rounded : bits | 0x400000u;
  return __builtin_convertvector(kept >> 16, Halves);
#endif
}

template <Half T>
TRAINGRAPH_INLINE Vector load(const T* x) {
  Halves halves;
  std::memcpy(&halves, x, sizeof halves);
  return widened(halves, T{});
}
template <Half T>
TRAINGRAPH_INLINE void store(T* x, Vector v) {
  const Halves halves = narrowed(v, T{});
  std::memcpy(x, &halves, sizeof halves);
}

// Past the caches, where the machine can; x is aligned to Halves.
template <Half T>
TRAINGRAPH_INLINE void stream(T* x, Vector v) {
  const Halves halves = narrowed(v, T{});
#if defined(__AVX512F__)
  _mm256_stream_si256(reinterpret_cast<__m256i*>(x), reinterpret_cast<__m256i>(halves));
#elif defined(__AVX__)
  _mm_stream_si128(reinterpret_cast<__m128i*>(x), reinterpret_cast<__m128i>(halves));
#else
  std::memcpy(x, &halves, sizeof halves);
#endif
}
template <Half T>
TRAINGRAPH_INLINE bool is_aligned(const T* x) {
  return reinterpret_cast<std::uintptr_t>(x) % sizeof(Halves) == 0;
}

// Those of `part` alone.
template <Half T>
TRAINGRAPH_INLINE Vector load(const T* x, const Partial& part) {
#if defined(__AVX512F__)
  return widened(reinterpret_cast<Halves>(_mm256_maskz_loadu_epi16(part.mask(), x)), T{});
#else
  if (part.count() == kLanes) return load(x);  // no call to copy a number of bytes
  Halves halves{};
  std::memcpy(&halves, x, sizeof(T) * static_cast<std::size_t>(part.count()));
  return widened(halves, T{});
#endif
}
template <Half T>
TRAINGRAPH_INLINE void store(T* x, Vector v, const Partial& part) {
#if defined(__AVX512F__)
  const Halves halves = narrowed(v, T{});
  _mm256_mask_storeu_epi16(x, part.mask(), reinterpret_cast<__m256i>(halves));
#else
  if (part.count() == kLanes) return store(x, v);
  const Halves halves = narrowed(v, T{});
  std::memcpy(x, &halves, sizeof(T) * static_cast<std::size_t>(part.count()));
#endif
}
TRAINGRAPH_INLINE Vector load(const float* x, const Partial& part) { return part.load(x); }
TRAINGRAPH_INLINE void store(float* x, Vector v, const Partial& part) { part.store(x, v); }

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
