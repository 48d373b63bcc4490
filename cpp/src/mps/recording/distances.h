#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace traingraph::mps {

// from + count * distance, of any sign, or the nearest number: an offset that is far outside stays
// outside.
inline std::int64_t along(std::int64_t from, std::int64_t count, std::int64_t distance) {
  __extension__ typedef __int128 Wide;
  constexpr Wide kMost = std::numeric_limits<std::int64_t>::max();
  const Wide at = static_cast<Wide>(count) * distance + from;
  return static_cast<std::int64_t>(std::clamp(at, -kMost, kMost));
}

// Whether so many from `first` on lie within a size, whatever the offset that `first` is.
inline bool lies_within(std::int64_t first, std::int64_t count, std::int64_t size) {
  return first >= 0 && first <= size && count <= size - first;
}

}  // namespace traingraph::mps
