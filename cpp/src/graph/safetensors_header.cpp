// The subset of JSON that a safetensors header is made of: one object of objects, whose values are
// strings and lists of whole numbers. Nothing nests deeper, so nothing recurses.
#include "graph/safetensors_header.h"

#include <limits>
#include <set>
#include <utility>

#include <traingraph/errors.h>

#include "graph/safetensors.h"

namespace traingraph {
namespace {

constexpr std::string_view kMetadata = "__metadata__";

void append_utf8(std::string& text, std::uint32_t code) {
  auto put = [&](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xE0 | code >> 12);
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3F));
    }
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

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
    expect('"');
    std::string result;
    for (;;) {
      if (at_ == text_.size()) fail("the text has no end");
      const char c = text_[at_++];
      if (c == '"') break;
      if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a text");
      if (c == '\\') {
        escape(result);
      } else {
        result.push_back(c);
      }
    }
    if (!is_utf8(result)) fail("a text is not UTF-8");
    return result;
  }

  void escape(std::string& result) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
    const char c = at_ < text_.size() ? text_[at_++] : '\0';
    if (c == 'u') return append_utf8(result, escaped_code());
    const std::size_t known = c != '\0' ? kNames.find(c) : kNames.npos;
    if (known == kNames.npos) fail("an unknown escape in a text");
    result.push_back(kValues[known]);
  }

  std::uint32_t escaped_code() {
    const std::uint32_t first = hexadecimal();
    if (first < 0xD800 || first > 0xDFFF) return first;
    // Beyond 16 bits a character is written as a pair.
    const bool pair = first < 0xDC00 && text_.substr(at_, 2) == "\\u";
    if (pair) at_ += 2;
    const std::uint32_t second = pair ? hexadecimal() : 0;
    if (second < 0xDC00 || second > 0xDFFF) fail("half of a pair in a text");
    return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
  }

  std::uint32_t hexadecimal() {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = at_ < text_.size() ? text_[at_++] : '\0';
      if (c >= '0' && c <= '9') {
        value = value * 16 + static_cast<std::uint32_t>(c - '0');
      } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
        value = value * 16 + static_cast<std::uint32_t>((c | 0x20) - 'a') + 10;
      } else {
        fail("expected four hexadecimal digits");
      }
    }
    return value;
  }

  const std::string_view text_;
  const std::string& subject_;
  std::size_t at_ = 0;
};

std::string quoted(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20) {
      result += "\\u00";
      result += kDigits[byte >> 4];
      result += kDigits[byte & 15];
      continue;
    }
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

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
    metadata += (metadata.empty() ? "" : ",") + quoted(key) + ":" + quoted(value);
  }
  std::string result = "{" + quoted(kMetadata) + ":{" + metadata + "}";
  for (const HeaderEntry& entry : header.tensors) {
    result += "," + quoted(entry.name) + ":{\"dtype\":" + quoted(entry.type) +
              ",\"shape\":" + listed(entry.shape) +
              ",\"data_offsets\":" + listed({entry.begin, entry.end}) + "}";
  }
  return result + "}";
}

}  // namespace traingraph
