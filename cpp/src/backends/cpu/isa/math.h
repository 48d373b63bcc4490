#pragma once

#include <cstdint>

#include "ir/scalar_value.h"

// Elementary functions that the compiler can inline into vectorised loops: no calls, no branches,
// no tables. Errors stay within about 2 ulp (expm1, log1p, tanh: 3); NaN propagates, infinities and
// denormals are exact limits. Everything here is per instruction level.
namespace traingraph::cpu::TRAINGRAPH_ISA {

inline std::int32_t bits_of(float x) { return __builtin_bit_cast(std::int32_t, x); }
inline float from_bits(std::int32_t x) { return __builtin_bit_cast(float, x); }

// x = n ln 2 + r with |r| <= ln 2 / 2; `reduced` is e^r - 1.
struct ExpParts {
  float reduced;
  std::int32_t n;
};

inline ExpParts exp_parts(float x) {
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  const float shifted = x * 1.44269504088896341f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return {p * (r * r) + r, bits_of(shifted) - bits_of(12582912.0f)};
}

inline float power_of_two(std::int32_t n) { return from_bits((n + 127) << 23); }

struct Math {
  static inline float exp(float x) {
    // Beyond these the result is 0 or infinity; both comparisons keep NaN.
    x = x < -104.0f ? -104.0f : x;
    x = x > 89.0f ? 89.0f : x;
    const ExpParts parts = exp_parts(x);
    // In two factors, for results that are denormal or overflow.
    const std::int32_t half = parts.n >> 1;
    return (parts.reduced + 1.0f) * power_of_two(half) * power_of_two(parts.n - half);
  }

  static inline float expm1(float x) {
    const float clamped = x < -30.0f ? -30.0f : (x > 88.0f ? 88.0f : x);
    const ExpParts parts = exp_parts(clamped);
    const float scale = power_of_two(parts.n);
    const float near = parts.reduced * scale + (scale - 1.0f);
    // The quotient of zero keeps its sign; past 88 the 1 is far below the last bit.
    const float small = parts.n == 0 ? parts.reduced : near;
    return x > 88.0f ? exp(x) : (x == 0.0f ? x : small);
  }

  static inline float log(float x) {
    // Denormals are scaled into the normal range first.
    const bool denormal = x < 1.17549435e-38f;
    const float scaled = denormal ? x * 8388608.0f : x;
    // scaled = 2^n m with m in [sqrt(1/2), sqrt(2))
    // The bits of a negative number may wrap; its result is not used.
    const auto offset =
        static_cast<std::int32_t>(static_cast<std::uint32_t>(bits_of(scaled)) - 0x3f3504f3u);
    const std::int32_t n = offset >> 23;
    const float m = from_bits((offset & 0x007fffff) + 0x3f3504f3);
    const float exponent = static_cast<float>(n) - (denormal ? 23.0f : 0.0f);
    const float r = m - 1.0f;
    const float z = r * r;
    float p = 7.0376836292e-2f;
    p = p * r - 1.1514610310e-1f;
    p = p * r + 1.1676998740e-1f;
    p = p * r - 1.2420140846e-1f;
    p = p * r + 1.4249322787e-1f;
    p = p * r - 1.6668057665e-1f;
    p = p * r + 2.0000714765e-1f;
    p = p * r - 2.4999993993e-1f;
    p = p * r + 3.3333331174e-1f;
    float tail = p * r * z;
    tail = tail - exponent * 2.12194440e-4f;
    tail = tail - 0.5f * z;
    const float result = (r + tail) + exponent * 0.693359375f;
    const float infinity = __builtin_inff();
    // -inf at 0, NaN below, inf and NaN as they are
    const float low = x == 0.0f ? -infinity : __builtin_nanf("");
    return x > 0.0f ? (x < infinity ? result : x) : (x <= 0.0f ? low : x);
  }

  static inline float log1p(float x) {
    const float u = 1.0f + x;
    // What rounding 1 + x lost is given back by the quotient.
    const float far = log(u) * (x / (u - 1.0f));
    // Without a branch, which the vectoriser could not undo.
    const float large = x < __builtin_inff() ? far : x;
    return u == 1.0f ? x : large;
  }

  static inline float tanh(float x) {
    const float size = __builtin_fabsf(x);
    const float z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    const float near = p * z * x + x;
    const float limited = size > 10.0f ? 10.0f : size;
    const float far = 1.0f - 2.0f / (exp(2.0f * limited) + 1.0f);
    return size < 0.625f ? near : (x != x ? x : __builtin_copysignf(far, x));
  }

  static inline float sqrt(float x) { return __builtin_sqrtf(x); }

  static inline float gelu_derivative(float x) { return ir::scalar::gelu_derivative<Math>(x); }
};

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
