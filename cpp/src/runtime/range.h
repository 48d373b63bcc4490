#pragma once

#include <cmath>
#include <locale>
#include <sstream>
#include <string>

#include <traingraph/errors.h>
#include <traingraph/range.h>

// InvalidArgument for a number of a descriptor, layer, kernel or optimizer outside its range.
namespace traingraph {

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
