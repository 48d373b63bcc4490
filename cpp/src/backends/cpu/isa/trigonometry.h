// Vectorizable trigonometric functions and their inverses, as in math.h, with exact range
// reduction.
#pragma once

#include <cstdint>

#include "backends/cpu/isa/exponentials.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {

// x = (pi / 2) quadrant + angle with |angle| <= pi / 4; of the quadrant the last two bits count.
struct Turn {
  float angle;
  std::int32_t quadrant;
};

// The nearest whole number, of less than 2^51.
inline double nearest(double x) { return (x + 6755399441055744.0) - 6755399441055744.0; }

// Every float has its exact quadrant: x 2 / pi is added up from pieces of 2 / pi of 28 bits, whose
// products with 24 bits are exact. Of a large x the first 39 bits make whole turns alone.
inline Turn quarter_turns(float x) {
  constexpr double kNear[] = {0xa2f9836p-28, 0xe4e4415p-56, 0x29fc275p-84, 0x7d1f534p-112,
                              0xddc0db6p-140};
  constexpr double kFar[] = {0x220a94fp-67, 0xe13abe8p-95, 0xfa9a6eep-123, 0x06db14ap-151,
                             0xcc9e21cp-179};
  const bool is_far = __builtin_fabsf(x) >= 18446744073709551616.0f;  // 2^64
  const double wide = static_cast<double>(x);
  double sum = 0;
#pragma GCC unroll 5
  for (int k = 0; k < 5; ++k) {
    const double product = wide * (is_far ? kFar[k] : kNear[k]);
    // From 2^53 on a product is a whole number of turns.
    const double part = __builtin_fabs(product) < 9007199254740992.0 ? product : 0.0;
    sum += part - 4.0 * nearest(0.25 * part);
  }
  const double quadrant = nearest(sum);
  const auto angle = static_cast<float>((sum - quadrant) * 1.57079632679489661923);
  return {x - x == 0.0f ? angle : __builtin_nanf(""), static_cast<std::int32_t>(quadrant)};
}

// Over |x| <= pi / 4.
inline float near_sin(float x) {
  const float z = x * x;
  float p = -1.9515295891e-4f;
  p = p * z + 8.3321608736e-3f;
  p = p * z - 1.6666654611e-1f;
  return p * z * x + x;
}
inline float near_cos(float x) {
  const float z = x * x;
  float p = 2.443315711809948e-5f;
  p = p * z - 1.388731625493765e-3f;
  p = p * z + 4.166664568298827e-2f;
  return p * z * z - 0.5f * z + 1.0f;
}
// asin x over |x| <= 1/2, from x and its square.
inline float near_asin(float x, float z) {
  float p = 4.2163199048e-2f;
  p = p * z + 2.4181311049e-2f;
  p = p * z + 4.5470025998e-2f;
  p = p * z + 7.4953002686e-2f;
  p = p * z + 1.6666752422e-1f;
  return p * z * x + x;
}

struct Trigonometry {
  static inline float sin(float x) { return like_zero(wave(quarter_turns(x), 0), x); }
  static inline float cos(float x) { return wave(quarter_turns(x), 1); }

  static inline float tan(float x) {
    const Turn turn = quarter_turns(x);
    const float s = near_sin(turn.angle), c = near_cos(turn.angle);
    const bool odd = (turn.quadrant & 1) != 0;
    return like_zero((odd ? -c : s) / (odd ? s : c), x);
  }

  static inline float asin(float x) {
    const float size = __builtin_fabsf(x);
    const float half = 0.5f * (1.0f - size);
    const bool large = size > 0.5f;
    const float root = large ? __builtin_sqrtf(half) : size;
    const float angle = near_asin(root, large ? half : size * size);
    return __builtin_copysignf(large ? 1.57079632679489662f - 2.0f * angle : angle, x);
  }

  static inline float acos(float x) {
    const float size = __builtin_fabsf(x);
    const float half = 0.5f * (1.0f - size);
    const bool large = size > 0.5f;
    const float angle = near_asin(large ? __builtin_sqrtf(half) : x, large ? half : x * x);
    const float far = x < 0.0f ? 3.14159265358979324f - 2.0f * angle : 2.0f * angle;
    return large ? far : 1.57079632679489662f - angle;
  }

  static inline float atan(float x) {
    const float size = __builtin_fabsf(x);
    const bool steep = size > 2.414213562373095f;  // tan 3/8 pi
    const bool middle = size > 0.4142135623730950f;
    const float above = steep ? -1.0f : (middle ? size - 1.0f : size);
    const float below = steep ? size : (middle ? size + 1.0f : 1.0f);
    const float t = above / below;
    const float z = t * t;
    float p = 8.05374449538e-2f;
    p = p * z - 1.38776856032e-1f;
    p = p * z + 1.99777106478e-1f;
    p = p * z - 3.33329491539e-1f;
    const float start = steep ? 1.57079632679489662f : (middle ? 0.785398163397448310f : 0.0f);
    return __builtin_copysignf(start + (p * z * t + t), x);
  }

 private:
  // Zero keeps its sign.
  static inline float like_zero(float result, float x) {
    return __builtin_fabsf(x) < 0.5f ? __builtin_copysignf(result, x) : result;
  }
  // The sine so many quadrants further on.
  static inline float wave(Turn turn, std::int32_t ahead) {
    const std::int32_t quadrant = turn.quadrant + ahead;
    const float s = near_sin(turn.angle), c = near_cos(turn.angle);
    const float size = (quadrant & 1) != 0 ? c : s;
    return (quadrant & 2) != 0 ? -size : size;
  }
};

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
