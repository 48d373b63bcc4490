#include "runtime/json_text.h"

#include <cstdint>

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

class TextReader {
 public:
  TextReader(std::string_view text, std::size_t& at, const std::function<void(const char*)>& fail)
      : text_(text), at_(at), fail_(fail) {}

  std::string read() {
    if (at_ == text_.size() || text_[at_++] != '"') fail("expected '\"'");
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

 private:
  void fail(const char* what) const { fail_(what); }

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
  std::size_t& at_;
  const std::function<void(const char*)>& fail_;
};

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

std::string read_json_text(std::string_view json, std::size_t& at,
                           const std::function<void(const char*)>& fail) {
  return TextReader(json, at, fail).read();
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

}  // namespace traingraph
