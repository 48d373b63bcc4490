#pragma once

#include <cfloat>
#include <limits>

namespace traingraph {

// What a number may be, in words too. NaN lies in no range.
struct Range {
  double least, most;
  const char* text;
};

inline constexpr double kInfinite = std::numeric_limits<double>::infinity();
inline constexpr Range kAnyNumber{-kInfinite, kInfinite, "a number"};
inline constexpr Range kFinite{-FLT_MAX, FLT_MAX, "a finite number"};
inline constexpr Range kNotNegative{0, FLT_MAX, "a finite number of 0 or more"};
inline constexpr Range kLimit{0, kInfinite, "0 or more"};
inline constexpr Range kShare{0, 1, "from 0 to 1"};
// The largest float32 below 1 is allowed.
inline constexpr Range kShareBelowOne{0, 1 - FLT_EPSILON / 2, "from 0 to less than 1"};

}  // namespace traingraph
