#pragma once

#include <cstddef>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

// Numbers as text, the same in every locale, as std::to_chars and std::from_chars write and read
// them. Apple's C++ library has the first for double from macOS 13.3 on, and the second in the
// newest versions alone: https://libcxx.llvm.org/Status/Cxx17.html
namespace traingraph {

// A stream into text that no locale of the application changes.
class PlainStream : public std::ostringstream {
 public:
  PlainStream();
};

// For messages and descriptions: six digits, "nan", "inf".
std::string short_text(double value);

// The shortest text that reads back as this finite number, with an exponent where that is shorter.
std::string number_text(double value);

// Reads digits, perhaps with a sign, a fraction and an exponent, at `at`, and moves that behind
// them. Nothing where there are none, or where no finite number but 0 is near to them.
std::optional<double> read_number_text(std::string_view text, std::size_t& at);

}  // namespace traingraph
