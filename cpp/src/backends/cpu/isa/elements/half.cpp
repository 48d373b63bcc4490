// Numbers of 16 bits to float32 and back: the functions of every backend, in vectors.
#include "backends/cpu/isa/elements/half.h"

#include <cstring>

#include "backends/cpu/isa/half_vector.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {
namespace {

template <float (*kWidened)(std::uint16_t)>
__attribute__((flatten)) void widen_all(const std::uint16_t* x, float* y, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = kWidened(x[i]);
}

template <std::uint16_t (*kNarrowed)(float)>
__attribute__((flatten)) void narrow_all(const float* x, std::uint16_t* y, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = kNarrowed(x[i]);
}

#if defined(__F16C__)
// The instructions give the bits of those functions.
void widen_float16(const std::uint16_t* x, float* y, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i));
    _mm512_storeu_ps(y + i, _mm512_maskz_cvtph_ps(0xffff, halves));
  }
#endif
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i));
    _mm256_storeu_ps(y + i, _mm256_cvtph_ps(halves));
  }
  for (; i < n; ++i) y[i] = widened_float16(x[i]);
}

void narrow_float16(const float* x, std::uint16_t* y, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16) {
    const __m512 wide = _mm512_loadu_ps(x + i);
    const __m256i halves = _mm512_maskz_cvtps_ph(0xffff, wide, _MM_FROUND_TO_NEAREST_INT);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), halves);
  }
#endif
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i), halves);
  }
  for (; i < n; ++i) y[i] = narrowed_float16(x[i]);
}
#else
constexpr auto widen_float16 = widen_all<widened_float16>;
constexpr auto narrow_float16 = narrow_all<narrowed_float16>;
#endif

void narrow_bfloat16(const float* x, std::uint16_t* y, std::int64_t n) {
  BFloat16* const to = reinterpret_cast<BFloat16*>(y);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(to + i, load(x + i));
  for (; i < n; ++i) y[i] = narrowed_bfloat16(x[i]);
}

// By the bits: those of numbers up to 0 are integers up to 0, and NaN lies beyond infinity's.
template <std::int16_t kInfinity>
void relu_gradient(const std::uint16_t* dy, const std::uint16_t* y, std::uint16_t* dx,
                   std::int64_t n) {
  typedef std::int16_t Signed __attribute__((vector_size(32)));
  constexpr std::int64_t kCount = sizeof(Signed) / sizeof(std::int16_t);
  const auto choose = [&](std::int64_t at, std::size_t bytes) __attribute__((always_inline)) {
    Signed from{}, result{};
    std::memcpy(&from, y + at, bytes);
    std::memcpy(&result, dy + at, bytes);
    result &= (from > 0) | ((from & 0x7fff) > kInfinity);
    std::memcpy(dx + at, &result, bytes);
  };
  std::int64_t i = 0;
  for (; i + kCount <= n; i += kCount) choose(i, sizeof(Signed));
  if (i < n) choose(i, 2 * static_cast<std::size_t>(n - i));
}

}  // namespace

extern const HalfLoops half_loops;
const HalfLoops half_loops{{widen_float16, widen_all<widened_bfloat16>},
                           {narrow_float16, narrow_bfloat16},
                           {relu_gradient<0x7c00>, relu_gradient<0x7f80>}};

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
