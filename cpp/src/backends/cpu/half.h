#pragma once

#include "backends/cpu/isa/elements/half.h"
#include "backends/cpu/isa_select.h"
#include "ir/type.h"

namespace traingraph::cpu {

// Elements of 16 bits to float32 and back, n of them.
inline void widen(DataType type, const std::byte* x, float* y, std::int64_t n) {
  const auto loop = loops().half->widen[type == DataType::kFloat16 ? 0 : 1];
  loop(reinterpret_cast<const std::uint16_t*>(x), y, n);
}
inline void narrow(DataType type, const float* x, std::byte* y, std::int64_t n) {
  const auto loop = loops().half->narrow[type == DataType::kFloat16 ? 0 : 1];
  loop(x, reinterpret_cast<std::uint16_t*>(y), n);
}

}  // namespace traingraph::cpu
