// Helpers of blocks that make one layer: the text of the call, errors that name it, and options by
// name.
#pragma once

#include <algorithm>
#include <locale>
#include <optional>
#include <sstream>
#include <string>

#include <traingraph/errors.h>
#include <traingraph/nn.h>

namespace traingraph::nn {

// The call as it was written: "conv2d(3, 16, 3x3)".
template <class... Parts>
std::string call_text(const std::string& name, const Parts&... parts) {
  [[maybe_unused]] const auto text = [](const auto& part) {
    std::ostringstream stream;
    stream.imbue(std::locale::classic());
    if constexpr (requires { part.y; }) {
      stream << part.y;
      if (part.y != part.x) stream << "x" << part.x;
    } else {
      stream << part;
    }
    return stream.str();
  };
  std::string all;
  ((all += (all.empty() ? "" : ", ") + text(parts)), ...);
  return name + "(" + all + ")";
}

// Errors of the layer say which block made it, and of what.
Block layer_block(const std::string& text, Block::Make make,
                  Block::Kind kind = Block::Kind::kOther);

// [dense(64, 128)] expected a source (…, 64) but got (32, 100)
[[noreturn]] inline void refuse_source(const std::string& text, const std::string& expected,
                                       const TensorPtr& x) {
  throw ShapeError("[" + text + "] expected a source " + expected + " but got " +
                   to_string(x->descriptor().shape));
}

// [dense(0)] expected 1 or more outputs but got 0
inline void expect_some(const std::string& text, const char* what, std::int64_t count) {
  if (count >= 1) return;
  throw InvalidArgument("[" + text + "] expected 1 or more " + what + " but got " +
                        std::to_string(count));
}

inline std::int64_t smallest(const std::optional<Size>& size) {
  return size ? std::min(size->y, size->x) : 1;
}

inline std::string in_lower_case(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c += 'a' - 'A';
  }
  return text;
}

// InvalidArgument that lists what is accepted.
template <class Rows>
const auto& row_named(const Rows& rows, const std::string& subject, const char* what,
                      const std::string& name) {
  std::string names, meant;
  for (const auto& row : rows) {
    if (row.name == name) return row;
    names += (names.empty() ? "" : ", ") + std::string(row.name);
    if (in_lower_case(name) == row.name) meant = "; did you mean '" + in_lower_case(name) + "'?";
  }
  throw InvalidArgument("[" + subject + "] expected " + what + " of " + names + " but got '" +
                        name + "'" + meant);
}

}  // namespace traingraph::nn
