#pragma once

#include <cstdint>

namespace traingraph::cpu {

// The largest or smallest of elements `step` apart and its place, of each of `columns` neighbours;
// of equals the first one, and NaN before numbers. Places are numbers of float32 or int32.
struct ExtremumLoops {
  void (*along)(const float* x, std::int64_t depth, std::int64_t step, std::int64_t columns,
                bool largest, bool numbers, float* y, void* places);
};

}  // namespace traingraph::cpu
