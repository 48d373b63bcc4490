// The power function, as in math.h and with every exception of IEEE 754. The logarithm is taken in
// float64: its error is multiplied by y.
#pragma once

#include <cstdint>

#include "backends/cpu/isa/exponentials.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {

// log2 of a positive float; of 0 and infinity their limits.
inline double wide_log2(float x) {
  const Scaled scaled = scaled_of(x);
  const double m = static_cast<double>(scaled.m);
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 13.0;
  p = p * z + 1.0 / 11.0;
  p = p * z + 1.0 / 9.0;
  p = p * z + 1.0 / 7.0;
  p = p * z + 1.0 / 5.0;
  p = p * z + 1.0 / 3.0;
  p = p * z + 1.0;
  // 2 / ln 2
  const double result = p * s * 2.885390081777926815 + static_cast<double>(scaled.exponent);
  const double infinity = __builtin_inf();
  return x == 0.0f ? -infinity : (x < __builtin_inff() ? result : static_cast<double>(x));
}

// 2^x of a float64.
inline float rounded_exp2(double x) {
  x = x < -200.0 ? -200.0 : x;
  x = x > 200.0 ? 200.0 : x;
  const double whole = (x + 6755399441055744.0) - 6755399441055744.0;
  const double r = (x - whole) * 0.693147180559945309417;
  double p = 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  const auto n = static_cast<std::int32_t>(whole == whole ? whole : 0.0);
  const std::int32_t half = n >> 1;
  return static_cast<float>(p) * power_of_two(half) * power_of_two(n - half);
}

inline float pow(float x, float y) {
  const double log = wide_log2(__builtin_fabsf(x));
  // |x| = 1 gives 1 whatever y is.
  const float size = rounded_exp2(log == 0.0 ? 0.0 : static_cast<double>(y) * log);
  // From 2^24 on every number is an even one. Each choice hangs on one comparison, for the compiler
  // vectorises no sums of conditions over different types.
  const bool small = __builtin_fabsf(y) < 16777216.0f;
  const auto near = static_cast<std::int32_t>(small ? y : 0.0f);
  const std::int32_t odd = static_cast<float>(near) == y ? near & 1 : 0;
  const float rest = small ? y - static_cast<float>(near) : (y == y ? 0.0f : 1.0f);
  const float no_root = rest != 0.0f ? __builtin_nanf("") : -0.0f;  // adding -0 changes nothing
  const float result = from_bits(bits_of(size) ^ (bits_of(x) & (odd << 31)));
  const float finite = x > -__builtin_inff() ? result + no_root : result;
  const float chosen = x < 0.0f ? finite : result;
  return y == 0.0f ? 1.0f : (x == 1.0f ? 1.0f : chosen);
}

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
