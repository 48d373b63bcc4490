#pragma once

#include <string>

#include <traingraph/errors.h>
#include <traingraph/range.h>

#include "ir/number_text.h"

// InvalidArgument for a number of a descriptor, layer, kernel or optimizer outside its range.
namespace traingraph {

inline void expect_in(const Range& range, const std::string& subject, const char* what,
                      double value) {
  if (value >= range.least && value <= range.most) return;
  throw InvalidArgument("[" + subject + "] expected " + what + " to be " + range.text +
                        " but got " + short_text(value));
}

}  // namespace traingraph
