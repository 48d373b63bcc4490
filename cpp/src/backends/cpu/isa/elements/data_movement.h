#pragma once

#include <cstddef>
#include <cstdint>

namespace traingraph::cpu {

// Loops over elements of 1, 2, 4 and 8 bytes, in this order.
struct DataMovementLoops {
  // y[i + j to] = x[i from + j] for i < rows, j < columns; strides in bytes.
  void (*transpose[4])(const std::byte* x, std::int64_t from, std::byte* y, std::int64_t to,
                       std::int64_t rows, std::int64_t columns);
  // r[i] = x[i] where the condition's byte is not 0 (`where_not`: is 0), else y[i].
  void (*select[4])(const std::uint8_t* condition, bool where_not, const void* x, const void* y,
                    void* r, std::int64_t n);
  // The first position of an index below `lowest` or not below `end`; n if there is none.
  std::int64_t (*first_outside_int32)(const std::int32_t* indices, std::int64_t n,
                                      std::int64_t lowest, std::int64_t end);
  std::int64_t (*first_outside_int64)(const std::int64_t* indices, std::int64_t n,
                                      std::int64_t lowest, std::int64_t end);
};

}  // namespace traingraph::cpu
