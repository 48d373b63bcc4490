#pragma once

#include <cstddef>

#include <traingraph/types.h>

namespace traingraph {

// Whether floats are free of NaN and infinity, at the speed of reading them.
bool all_finite_float(const std::byte* bytes, std::size_t length);
bool all_finite_double(const std::byte* bytes, std::size_t length);
// Float16 or bfloat16.
bool all_finite_half(DataType type, const std::byte* bytes, std::size_t length);

}  // namespace traingraph
