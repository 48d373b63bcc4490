// Transposition of planes in squares that registers hold, choice by condition, and the search for
// indices out of range.
#include "backends/cpu/isa/elements/data_movement.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/isa/vector.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {
namespace {

template <class T>
void transpose_plane(const std::byte* x, std::int64_t from, std::byte* y, std::int64_t to,
                     std::int64_t rows, std::int64_t columns) {
  constexpr int kSide = std::min<int>(16, 4 * kLanes / sizeof(T));
  typedef T Row __attribute__((vector_size(kSide * sizeof(T))));
  const auto source = [&](std::int64_t i, std::int64_t j) {
    return reinterpret_cast<const T*>(x + i * from) + j;
  };
  const auto target = [&](std::int64_t i, std::int64_t j) {
    return reinterpret_cast<T*>(y + j * to) + i;
  };
  const std::int64_t whole_rows = rows / kSide * kSide, whole_columns = columns / kSide * kSide;
  for (std::int64_t j = 0; j < whole_columns; j += kSide) {
    for (std::int64_t i = 0; i < whole_rows; i += kSide) {
      Row square[kSide];
#pragma GCC unroll 16
      for (int k = 0; k < kSide; ++k) std::memcpy(&square[k], source(i + k, j), sizeof(Row));
      transpose(square);
#pragma GCC unroll 16
      for (int k = 0; k < kSide; ++k) std::memcpy(target(i, j + k), &square[k], sizeof(Row));
    }
  }
  for (std::int64_t j = whole_columns; j < columns; ++j) {
    for (std::int64_t i = 0; i < whole_rows; ++i) *target(i, j) = *source(i, j);
  }
  for (std::int64_t i = whole_rows; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) *target(i, j) = *source(i, j);
  }
}

template <class T>
void select_elements(const std::uint8_t* condition, bool where_not, const void* x, const void* y,
                     void* r, std::int64_t n) {
  const T* const from_x = static_cast<const T*>(x);
  const T* const from_y = static_cast<const T*>(y);
  T* const result = static_cast<T*>(r);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const T first = from_x[i], second = from_y[i];
    result[i] = (condition[i] != 0) != where_not ? first : second;
  }
}

template <class T>
std::int64_t first_outside(const T* indices, std::int64_t n, std::int64_t lowest,
                           std::int64_t end) {
  constexpr std::int64_t kBlock = 512;
  const auto is_outside = [&](T index) {
    return static_cast<std::int64_t>(index) < lowest || static_cast<std::int64_t>(index) >= end;
  };
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t stop = std::min(n, begin + kBlock);
    int any = 0;
#pragma omp simd reduction(| : any)
    for (std::int64_t k = begin; k < stop; ++k) any |= is_outside(indices[k]) ? 1 : 0;
    if (any != 0) return std::find_if(indices + begin, indices + stop, is_outside) - indices;
  }
  return n;
}

}  // namespace

extern const DataMovementLoops data_movement_loops;
const DataMovementLoops data_movement_loops{
    {transpose_plane<std::uint8_t>, transpose_plane<std::uint16_t>, transpose_plane<std::uint32_t>,
     transpose_plane<std::uint64_t>},
    {select_elements<std::uint8_t>, select_elements<std::uint16_t>, select_elements<std::uint32_t>,
     select_elements<std::uint64_t>},
    first_outside<std::int32_t>,
    first_outside<std::int64_t>};

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
