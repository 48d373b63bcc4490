// What loops of products share: how columns of a transposed matrix come side by side, and how a sum
// ends.
#pragma once

#include "backends/cpu/isa/half_vector.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {

// Rows `from` (filled, inner), `row` elements apart → to (inner, kLanes), `to_row` floats apart;
// zeros for rows beyond `filled`. T is float or of 16 bits.
template <class T>
TRAINGRAPH_INLINE void pack_transposed(const T* from, std::int64_t row, std::int64_t filled,
                                       std::int64_t inner, float* to, std::int64_t to_row) {
  std::int64_t k = 0;
  for (; k + kLanes <= inner; k += kLanes) {
    Vector rows[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) rows[i] = i < filled ? load(from + i * row + k) : Vector{};
    transpose(rows);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) store(to + (k + i) * to_row, rows[i]);
  }
  for (; k < inner; ++k) {
    for (std::int64_t i = 0; i < kLanes; ++i) {
      to[k * to_row + i] = i < filled ? number(from[i * row + k]) : 0.0f;
    }
  }
}

TRAINGRAPH_INLINE Vector finished(Vector sum, float alpha, Vector bias, bool relu) {
  sum = sum * alpha + bias;
  return relu ? (sum < 0.0f ? Vector{} : sum) : sum;
}

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
