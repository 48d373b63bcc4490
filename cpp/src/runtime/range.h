#pragma once

#include <cfloat>
#include <cmath>
#include <limits>
#include <locale>
#include <sstream>
#include <string>

#include <traingraph/errors.h>

// What a number that a descriptor, layer, kernel or optimizer takes may be. NaN lies in no range.
namespace traingraph {

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

inline void expect_in(const Range& range, const std::string& subject, const char* what,
                      double value) {
  if (value >= range.least && value <= range.most) return;
  std::ostringstream text;
  text.imbue(std::locale::classic());
  if (std::isnan(value)) {
    text << "nan";  // some libraries write its sign
  } else {
    text << value;
  }
  throw InvalidArgument("[" + subject + "] expected " + what + " to be " + range.text +
                        " but got " + text.str());
}

}  // namespace traingraph
