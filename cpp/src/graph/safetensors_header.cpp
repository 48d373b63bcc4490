// The subset of JSON that a safetensors header is made of: one object of objects, whose values are
// strings and lists of whole numbers. Nothing nests deeper, so nothing recurses.
#include "graph/safetensors_header.h"

#include <limits>
#include <set>
#include <utility>

#include <traingraph/errors.h>

#include "runtime/json_text.h"

namespace traingraph {
namespace {

constexpr std::string_view kMetadata = "__metadata__";

class Reader {
 public:
  Reader(std::string_view text, const std::string& subject) : text_(text), subject_(subject) {}

  SafetensorsHeader read() {
    SafetensorsHeader header;
    std::set<std::string> names;
    if (text_.empty() || text_.front() != '{') fail("expected '{' first");
    object([&] {
      std::string name = string();
      if (!names.insert(name).second) fail("'" + name + "' is there twice");
      expect(':');
      if (name == kMetadata) {
        metadata(header);
      } else {
        header.tensors.push_back(entry(std::move(name)));
      }
    });
    skip_space();
    if (at_ != text_.size()) fail("expected nothing after the object");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw InvalidArgument(subject_ + what + " at byte " + std::to_string(at_) + " of its header");
  }

  void skip_space() {
    while (at_ < text_.size() &&
           std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
      ++at_;
  }

  // The next character that is no space; 0 at the end.
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  void expect(char wanted) {
    if (peek() != wanted) fail(std::string("expected '") + wanted + "'");
    ++at_;
  }

  template <class Item>
  void list(char open, char close, Item item) {
    expect(open);
    if (peek() == close) {
      ++at_;
      return;
    }
    for (;;) {
      item();
      if (peek() != ',') break;
      ++at_;
    }
    expect(close);
  }

  template <class Member>
  void object(Member member) {
    list('{', '}', member);
  }

  void metadata(SafetensorsHeader& header) {
    object([&] {
      std::string key = string();
      expect(':');
      std::string value = string();
      if (!header.metadata.emplace(key, std::move(value)).second) {
        fail("'" + key + "' is there twice");
      }
    });
  }

  HeaderEntry entry(std::string name) {
    HeaderEntry result;
    result.name = std::move(name);
    std::set<std::string> seen;
    object([&] {
      const std::string key = string();
      if (!seen.insert(key).second) fail("'" + key + "' is there twice");
      expect(':');
      if (key == "dtype") {
        result.type = string();
      } else if (key == "shape") {
        list('[', ']', [&] { result.shape.push_back(number()); });
      } else if (key == "data_offsets") {
        Shape offsets;
        list('[', ']', [&] { offsets.push_back(number()); });
        if (offsets.size() != 2) fail("expected two data_offsets");
        result.begin = offsets[0];
        result.end = offsets[1];
      } else {
        fail("expected dtype, shape or data_offsets but got '" + key + "'");
      }
    });
    if (seen.size() != 3) fail("expected dtype, shape and data_offsets of '" + result.name + "'");
    return result;
  }

  // A whole number without sign, fraction, exponent or leading zero.
  std::int64_t number() {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    peek();
    const std::size_t first = at_;
    std::int64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      const std::int64_t digit = text_[at_] - '0';
      if (value > (kMost - digit) / 10) fail("the number is too large");
      value = value * 10 + digit;
      ++at_;
    }
    if (at_ == first) fail("expected a whole number");
    if (at_ - first > 1 && text_[first] == '0') fail("expected a number without leading zero");
    return value;
  }

  std::string string() {
    peek();
    return read_json_text(text_, at_, [this](const char* what) { fail(what); });
  }

  const std::string_view text_;
  const std::string& subject_;
  std::size_t at_ = 0;
};

std::string listed(const Shape& numbers) {
  std::string result = "[";
  for (const std::int64_t number : numbers) {
    result += (result.size() > 1 ? "," : "") + std::to_string(number);
  }
  return result + "]";
}

}  // namespace

SafetensorsHeader parse_header(std::string_view text, const std::string& subject) {
  return Reader(text, subject).read();
}

std::string to_json(const SafetensorsHeader& header) {
  std::string metadata;
  for (const auto& [key, value] : header.metadata) {
    metadata += (metadata.empty() ? "" : ",") + json_text(key) + ":" + json_text(value);
  }
  std::string result = "{" + json_text(kMetadata) + ":{" + metadata + "}";
  for (const HeaderEntry& entry : header.tensors) {
    result += "," + json_text(entry.name) + ":{\"dtype\":" + json_text(entry.type) +
              ",\"shape\":" + listed(entry.shape) +
              ",\"data_offsets\":" + listed({entry.begin, entry.end}) + "}";
  }
  return result + "}";
}

}  // namespace traingraph
