// JSON texts for safetensors headers, profiles and archives of kernels: quoting, and `JsonReader`,
// which reads them in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace traingraph {

// Whether every byte belongs to a well-formed UTF-8 sequence.
bool is_utf8(std::string_view text);

// In quotes; control characters, quotes and backslashes are escaped.
std::string json_text(std::string_view text);

// A place in a JSON text, and what is read there; it moves behind what it has read. What is wrong
// raises InvalidArgument: "<subject><what is wrong> at byte 7<whose>".
class JsonReader {
 public:
  explicit JsonReader(std::string_view text, std::string subject = {}, std::string whose = {})
      : text_(text), subject_(std::move(subject)), whose_(std::move(whose)) {}

  // What has not been read, spaces included.
  std::string_view rest() const { return text_.substr(at_); }
  void skip(std::size_t bytes) { at_ += bytes; }

  // The next character that is no space; 0 at the end.
  char peek();
  void expect(char wanted);
  // Whether this word is next; then it is read.
  bool take(std::string_view word);
  std::string string();
  // Calls `item` for each, at its place.
  template <class Item>
  void items(char open, char close, Item item) {
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
  // Raises this where there is more than spaces.
  void finish(const char* what);

  [[noreturn]] void fail(const std::string& what) const;

 private:
  char next();
  void escape(std::string& result);
  std::uint32_t escaped_code();
  std::uint32_t hexadecimal();

  const std::string_view text_;
  const std::string subject_;
  const std::string whose_;
  std::size_t at_ = 0;
};

}  // namespace traingraph
