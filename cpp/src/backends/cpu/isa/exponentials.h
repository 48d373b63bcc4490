// Vectorizable exp, log, hyperbolic functions and their inverses, as in math.h. Everything here is
// per instruction level.
#pragma once

#include <cstdint>

namespace traingraph::cpu::TRAINGRAPH_ISA {

inline std::int32_t bits_of(float x) { return __builtin_bit_cast(std::int32_t, x); }
inline float from_bits(std::int32_t x) { return __builtin_bit_cast(float, x); }

// x = n ln 2 + r with |r| <= ln 2 / 2; `reduced` is e^r - 1.
struct ExpParts {
  float reduced;
  std::int32_t n;
};

// e^r - 1 for |r| <= ln 2 / 2
inline float reduced_exp(float r) {
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return p * (r * r) + r;
}

inline ExpParts exp_parts(float x) {
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  const float shifted = x * 1.44269504088896341f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  return {reduced_exp(r), bits_of(shifted) - bits_of(12582912.0f)};
}

inline float power_of_two(std::int32_t n) { return from_bits((n + 127) << 23); }

// x = 2^exponent m with m in [sqrt(1/2), sqrt(2)), of a positive number.
struct Scaled {
  float m;
  float exponent;
};

inline Scaled scaled_of(float x) {
  // Denormals are scaled into the normal range first.
  const bool denormal = x < 1.17549435e-38f;
  const float scaled = denormal ? x * 8388608.0f : x;
  // The bits of a negative number may wrap; its result is not used.
  const auto offset =
      static_cast<std::int32_t>(static_cast<std::uint32_t>(bits_of(scaled)) - 0x3f3504f3u);
  return {from_bits((offset & 0x007fffff) + 0x3f3504f3),
          static_cast<float>(offset >> 23) - (denormal ? 23.0f : 0.0f)};
}

// r = m - 1, and log m is r - r² / 2 + cubic.
struct LogParts {
  float r;
  float cubic;
  float exponent;
};

inline LogParts log_parts(float x) {
  const Scaled scaled = scaled_of(x);
  const float r = scaled.m - 1.0f;
  float p = 7.0376836292e-2f;
  p = p * r - 1.1514610310e-1f;
  p = p * r + 1.1676998740e-1f;
  p = p * r - 1.2420140846e-1f;
  p = p * r + 1.4249322787e-1f;
  p = p * r - 1.6668057665e-1f;
  p = p * r + 2.0000714765e-1f;
  p = p * r - 2.4999993993e-1f;
  p = p * r + 3.3333331174e-1f;
  return {r, p * r * (r * r), scaled.exponent};
}

// What a logarithm is of x, which is `result` of a positive number.
inline float logarithm_of(float x, float result) {
  const float infinity = __builtin_inff();
  // -inf at 0, NaN below, inf and NaN as they are
  const float low = x == 0.0f ? -infinity : __builtin_nanf("");
  return x > 0.0f ? (x < infinity ? result : x) : (x <= 0.0f ? low : x);
}

struct Exponentials {
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
    const LogParts parts = log_parts(x);
    float tail = parts.cubic - parts.exponent * 2.12194440e-4f;
    tail = tail - 0.5f * (parts.r * parts.r);
    return logarithm_of(x, (parts.r + tail) + parts.exponent * 0.693359375f);
  }

  static inline float log2(float x) {
    const LogParts parts = log_parts(x);
    const float near = parts.r + (parts.cubic - 0.5f * (parts.r * parts.r));
    return logarithm_of(x, near * 1.44269504088896341f + parts.exponent);
  }

  static inline float exp2(float x) {
    x = x < -151.0f ? -151.0f : x;
    x = x > 129.0f ? 129.0f : x;
    const float shifted = x + 12582912.0f;
    const std::int32_t n = bits_of(shifted) - bits_of(12582912.0f);
    const float r = (x - (shifted - 12582912.0f)) * 0.693147180559945309f;
    const std::int32_t half = n >> 1;
    return (reduced_exp(r) + 1.0f) * power_of_two(half) * power_of_two(n - half);
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
    return x != x ? x : __builtin_copysignf(size < 0.625f ? near : far, x);
  }

  // x + x p(x²) below 0.875, else 1 - e^-p(|x|); beyond 4 it is 1. Both polynomials are least in
  // their largest relative error.
  static inline float erf(float x) {
    const float size = __builtin_fabsf(x);
    const float z = x * x;
    float p = ((-6.2032551e-4f * z + 5.0321813e-3f) * z - 2.6791463e-2f) * z + 1.1282455e-1f;
    p = (p * z - 3.7612551e-1f) * z + 1.2837915e-1f;
    const float t = size > 4.0f ? 4.0f : size;
    float q = ((-2.0099644e-4f * t + 3.0922941e-3f) * t - 2.2420226e-2f) * t + 1.0432752e-1f;
    q = ((q * t + 6.3673723e-1f) * t + 1.1279361f) * t + 1.3357286e-4f;
    const ExpParts parts = exp_parts(-q);
    const float far = 1.0f - (parts.reduced + 1.0f) * power_of_two(parts.n);
    return __builtin_copysignf(size < 0.875f ? p * size + size : far, x);
  }

  static inline float sinh(float x) {
    const float size = __builtin_fabsf(x);
    const float less = expm1(size > 80.0f ? 80.0f : size);
    const float half = exp(0.5f * size);  // its square may overflow before its result does
    const float large = 0.5f * half * half;
    return __builtin_copysignf(size > 80.0f ? large : 0.5f * (less + less / (less + 1.0f)), x);
  }

  static inline float cosh(float x) {
    const float size = __builtin_fabsf(x);
    const float half = exp(0.5f * size);
    const float one = half * half;
    return size > 80.0f ? 0.5f * half * half : 0.5f * one + 0.5f / one;
  }

  // Where the square of x is beyond the range, or 1 below its last bit: log(2 |x|).
  static inline float asinh(float x) {
    const float size = __builtin_fabsf(x);
    const float square = size * size;
    const float near = log1p(size + square / (1.0f + __builtin_sqrtf(1.0f + square)));
    const float far = log(size) + 0.693147180559945309f;
    return __builtin_copysignf(size > 4096.0f ? far : near, x);
  }

  static inline float acosh(float x) {
    const float above = x - 1.0f;
    const float near = log1p(above + __builtin_sqrtf(above * (above + 2.0f)));
    const float far = log(x) + 0.693147180559945309f;
    return x > 4096.0f ? far : (x < 1.0f ? __builtin_nanf("") : near);
  }

  static inline float atanh(float x) {
    const float size = __builtin_fabsf(x);
    const float inside = 0.5f * log1p(2.0f * size / (1.0f - size));
    return size > 1.0f ? __builtin_nanf("") : __builtin_copysignf(inside, x);
  }
};

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
