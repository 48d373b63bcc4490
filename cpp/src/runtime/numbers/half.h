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

// Without branches, so that loops over them are vectorised.
inline float widened_float16(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  // Zero and subnormals are multiples of 2^-24.
  const float multiple = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f;
  const std::uint32_t exponents = magnitude < 0x7c00u ? 112u << 23 : 224u << 23;
  const std::uint32_t quiet = magnitude > 0x7c00u ? 0x400000u : 0;
  const std::uint32_t wide = ((magnitude << 13) + exponents) | quiet;
  return std::bit_cast<float>(sign |
                              (magnitude < 0x400u ? std::bit_cast<std::uint32_t>(multiple) : wide));
}

inline std::uint16_t narrowed_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  // Below 2^-14: a sum with 0.5 is rounded to a multiple of 2^-24, as subnormals are.
  const float sum = std::bit_cast<float>(magnitude) + 0.5f;
  const std::uint32_t small = std::bit_cast<std::uint32_t>(sum) - 0x3f000000u;
  const std::uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  const std::uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  std::uint32_t half = magnitude < 0x38800000u ? small : normal;
  half = magnitude >= 0x477ff000u ? 0x7c00u : half;  // 65520, half way to what would follow 65504
  half = magnitude > 0x7f800000u ? nan : half;
  return static_cast<std::uint16_t>(sign | half);
}

inline float widened_bfloat16(std::uint16_t half) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

inline std::uint16_t narrowed_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t nan = (bits >> 16) | 0x40u;
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
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
