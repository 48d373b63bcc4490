#pragma once

#include <algorithm>
#include <cstring>
#include <iterator>

#include "backends/cpu/isa/elements/half.h"
#include "backends/cpu/isa_select.h"
#include "ir/type.h"

namespace traingraph::cpu {

// Which of the loops for float32, float16 and bfloat16 takes this type; -1: none.
inline int loop_of(DataType type) {
  constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16};
  const auto* const found = std::find(std::begin(kTypes), std::end(kTypes), type);
  return found == std::end(kTypes) ? -1 : static_cast<int>(found - std::begin(kTypes));
}

// Elements of 16 bits to float32 and back, n of them.
inline void widen(DataType type, const std::byte* x, float* y, std::int64_t n) {
  const auto loop = loops().half->widen[type == DataType::kFloat16 ? 0 : 1];
  loop(reinterpret_cast<const std::uint16_t*>(x), y, n);
}
inline void narrow(DataType type, const float* x, std::byte* y, std::int64_t n) {
  const auto loop = loops().half->narrow[type == DataType::kFloat16 ? 0 : 1];
  loop(x, reinterpret_cast<std::uint16_t*>(y), n);
}

// The same where the type may be float32, too.
inline void to_floats(DataType type, const std::byte* x, float* y, std::int64_t n) {
  if (ir::is_half(type)) return widen(type, x, y, n);
  std::memcpy(y, x, sizeof(float) * static_cast<std::size_t>(n));
}
inline void from_floats(DataType type, const float* x, std::byte* y, std::int64_t n) {
  if (ir::is_half(type)) return narrow(type, x, y, n);
  std::memcpy(y, x, sizeof(float) * static_cast<std::size_t>(n));
}

}  // namespace traingraph::cpu
