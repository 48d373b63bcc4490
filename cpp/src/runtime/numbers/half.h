// Conversion of float16 (5 exponent bits, 10 of fraction) and bfloat16 (8 and 7) to float32 and
// back. Widening is exact; narrowing rounds to the nearest, ties to even, beyond the largest number
// to infinity. NaN stays NaN.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ir/type.h"

namespace traingraph {

inline float widened_float16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1fu;
  const std::uint32_t fraction = half & 0x3ffu;
  if (exponent == 0) {  // zero and subnormals: multiples of 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 0x1f ? 0xffu : exponent + 112;
  return std::bit_cast<float>(sign | (wide << 23) | (fraction << 13));
}

inline std::uint16_t narrowed_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x477ff000u) {  // 65520, half way to what would follow 65504
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {
    // Below 2^-14: a sum with 0.5 is rounded to a multiple of 2^-24, as subnormals are.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<std::uint32_t>(sum) - std::bit_cast<std::uint32_t>(0.5f);
  } else {
    half = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

inline float widened_bfloat16(std::uint16_t half) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

inline std::uint16_t narrowed_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  }
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// Whole arrays; `type` is the one of 16 bits. The halves need no alignment.
inline void widen(DataType type, const void* halves, float* floats, std::size_t count) {
  const auto* from = static_cast<const std::byte*>(halves);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t half = 0;
    std::memcpy(&half, from + 2 * i, sizeof half);
    floats[i] = type == DataType::kFloat16 ? widened_float16(half) : widened_bfloat16(half);
  }
}

inline void narrow(DataType type, const float* floats, void* halves, std::size_t count) {
  auto* to = static_cast<std::byte*>(halves);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint16_t half =
        type == DataType::kFloat16 ? narrowed_float16(floats[i]) : narrowed_bfloat16(floats[i]);
    std::memcpy(to + 2 * i, &half, sizeof half);
  }
}

}  // namespace traingraph
