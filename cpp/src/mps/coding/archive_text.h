#pragma once

#include <string>
#include <string_view>

#include <traingraph/mps/coding.h>

namespace traingraph::mps {

// JSON, with Python's names for numbers that are none: NaN, Infinity, -Infinity.
// Raises InvalidArgument for texts that are not UTF-8.
std::string to_json(const CodedValue& value);
// Raises InvalidArgument that says what is wrong and where.
CodedValue from_json(std::string_view text);

}  // namespace traingraph::mps
