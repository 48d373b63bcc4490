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
inline constexpr Range kProbability{FLT_TRUE_MIN, 1 - FLT_EPSILON / 2, "above 0 and below 1"};
inline constexpr Range kPositive{FLT_TRUE_MIN, kInfinite, "above 0"};
// Of whole numbers.
inline constexpr Range kOneOrMore{1, kInfinite, "1 or more"};
inline constexpr Range kZeroOrOne{0, 1, "0 or 1"};
inline constexpr Range kZero{0, 0, "0"};
inline constexpr Range kOfWindow{1, 2147483647, "from 1 to 2**31 - 1"};

}  // namespace traingraph
