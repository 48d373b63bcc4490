// Helpers of blocks that make one layer: the text of the call, errors that name it, and options by
// name.
#pragma once

#include <algorithm>
#include <cstdint>
#include <locale>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include <traingraph/errors.h>
#include <traingraph/message_text.h>
#include <traingraph/nn.h>

namespace traingraph::nn {

inline std::string number_text(double number) {
  std::ostringstream stream;
  stream.imbue(std::locale::classic());
  stream << number;
  return stream.str();
}

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

// The same of a block that reads lengths, which are int32 or null.
Block sequence_block(const std::string& text, Block::MakeOfSequences make);

// The numbers of a new layer's parameters, in float64 where its source is.
TensorPtr like_source(const TensorPtr& x, const TensorPtr& made);
std::vector<TensorPtr> like_source(const TensorPtr& x, std::vector<TensorPtr> made);
TensorPtr in_type(DataType type, const TensorPtr& made);

// [dense(64, 128)] expected a source (…, 64) but got (32, 100)
[[noreturn]] inline void refuse_source(const std::string& text, const std::string& expected,
                                       const TensorPtr& x, const std::string& advice = "") {
  throw ShapeError("[" + text + "] expected a source " + expected + " but got " +
                   to_string(x->descriptor().shape) + advice);
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

// Counted from the batch, which is 0; below 0 from behind the last one. Raises InvalidArgument.
inline std::int64_t axis_of(const char* function, std::int64_t axis, const TensorPtr& x) {
  const Shape& shape = x->descriptor().shape;
  const auto rank = static_cast<std::int64_t>(shape.size());
  if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  throw InvalidArgument("[" + std::string(function) + "] expected an axis from " +
                        std::to_string(-rank) + " to " + std::to_string(rank - 1) + " of " +
                        to_string(shape) + " but got " + std::to_string(axis) +
                        "; the batch is axis 0");
}

// InvalidArgument that lists what is accepted.
template <class Rows>
const auto& row_named(const Rows& rows, const std::string& subject, const char* what,
                      const std::string& name) {
  std::string listed;
  std::vector<std::string> names;
  for (const auto& row : rows) {
    if (row.name == name) return row;
    names.emplace_back(row.name);
    listed += (listed.empty() ? "" : ", ") + names.back();
  }
  throw InvalidArgument("[" + subject + "] expected " + what + " of " + listed + " but got '" +
                        name + "'" + did_you_mean(name, names));
}

}  // namespace traingraph::nn
