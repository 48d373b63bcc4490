// Reads and writes JSON texts: strings with escapes and surrogate pairs, checked as UTF-8.
#include "runtime/files/json_text.h"

#include <cstdint>

#include <traingraph/errors.h>

namespace traingraph {
namespace {

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

}  // namespace

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t k) -> unsigned {
      return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0U;
    };
    const unsigned first = byte(0);
    if (first < 0x80) {
      ++i;
      continue;
    }
    const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (first < 0xC2 || first > 0xF4) return false;
    std::uint32_t code = first & (0x7FU >> length);
    for (std::size_t k = 1; k < length; ++k) {
      if ((byte(k) & 0xC0U) != 0x80U) return false;
      code = code << 6 | (byte(k) & 0x3FU);
    }
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    if (surrogate || overlong || code > 0x10FFFF) return false;
    i += length;
  }
  return true;
}

std::string json_text(std::string_view text) {
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

char JsonReader::peek() {
  constexpr std::string_view kSpaces = " \t\r\n";
  while (at_ < text_.size() && kSpaces.find(text_[at_]) != kSpaces.npos) ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

void JsonReader::expect(char wanted) {
  if (peek() != wanted) fail(std::string("expected '") + wanted + "'");
  ++at_;
}

bool JsonReader::take(std::string_view word) {
  if (!rest().starts_with(word)) return false;
  at_ += word.size();
  return true;
}

std::string JsonReader::string() {
  peek();
  if (next() != '"') fail("expected '\"'");
  std::string result;
  for (;;) {
    if (at_ == text_.size()) fail("the text has no end");
    const char c = next();
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

void JsonReader::finish(const char* what) {
  peek();
  if (at_ != text_.size()) fail(what);
}

void JsonReader::fail(const std::string& what) const {
  throw InvalidArgument(subject_ + what + " at byte " + std::to_string(at_) + whose_);
}

// The next character of a text, which is read; 0 at the end.
char JsonReader::next() { return at_ < text_.size() ? text_[at_++] : '\0'; }

void JsonReader::escape(std::string& result) {
  constexpr std::string_view kNames = "\"\\/bfnrt";
  constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
  const char c = next();
  if (c == 'u') return append_utf8(result, escaped_code());
  const std::size_t known = c != '\0' ? kNames.find(c) : kNames.npos;
  if (known == kNames.npos) fail("an unknown escape in a text");
  result.push_back(kValues[known]);
}

std::uint32_t JsonReader::escaped_code() {
  const std::uint32_t first = hexadecimal();
  if (first < 0xD800 || first > 0xDFFF) return first;
  // Beyond 16 bits a character is written as a pair.
  const bool pair = first < 0xDC00 && take("\\u");
  const std::uint32_t second = pair ? hexadecimal() : 0;
  if (second < 0xDC00 || second > 0xDFFF) fail("half of a pair in a text");
  return 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
}

std::uint32_t JsonReader::hexadecimal() {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = next();
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

}  // namespace traingraph
