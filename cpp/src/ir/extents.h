#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include <traingraph/types.h>

// Arithmetic over counts, bytes and strides that never wraps round.
namespace traingraph::ir {

using traingraph::kMostBytes;
// What counts beyond 64 bits are.
constexpr std::int64_t kBeyond = std::numeric_limits<std::int64_t>::max();
// The largest number that describes a window: products of two of them are numbers of 64 bits.
constexpr std::int64_t kMostOfWindow = std::numeric_limits<std::int32_t>::max();

// What such a number has to be, for messages: where it is too small, and where it is too large.
inline std::string bound_of_window(bool is_small, std::int64_t least = 1) {
  return is_small ? std::to_string(least) + " or more" : std::to_string(kMostOfWindow) + " or less";
}

// The product of two counts, or kBeyond; 0 of anything is nothing.
inline std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? kBeyond : result;
}

// The sum of two counts, or kBeyond.
inline std::int64_t sum(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_add_overflow(a, b, &result) ? kBeyond : result;
}

// How many parts of b make up a count, the last of them smaller.
inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0); }

// Whether a tensor of these extents can exist.
inline bool can_be(const Shape& shape, DataType type) {
  return byte_count(shape, type) <= kMostBytes;
}

}  // namespace traingraph::ir
