// JSON text of a CodedValue, and back. NaN and infinities are written by name, and a floating-point
// number has a point or an exponent, which a whole number has not.
#include "mps/coding/archive_text.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <system_error>

#include <traingraph/errors.h>

#include "ir/number_text.h"
#include "runtime/files/json_text.h"

namespace traingraph::mps {
namespace {

// What nests deeper is no archive: the reader calls itself.
constexpr int kDeepest = 64;

std::string text_of(const std::string& text) {
  if (!is_utf8(text)) {
    throw InvalidArgument("[NSKeyedArchiver] expected a text in UTF-8 but got '" + text + "'");
  }
  return json_text(text);
}

// So that it is read as the same number, and not as a whole one.
std::string number_of(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  std::string text = number_text(value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

template <class Items, class Write>
void write_joined(std::string& to, char open, char close, const Items& items, Write write) {
  to += open;
  bool first = true;
  for (const auto& item : items) {
    if (!first) to += ", ";
    first = false;
    write(item);
  }
  to += close;
}

void write(std::string& to, const CodedValue& value) {
  if (const auto* const truth = value.as<bool>()) {
    to += *truth ? "true" : "false";
  } else if (const auto* const whole = value.as<std::int64_t>()) {
    to += std::to_string(*whole);
  } else if (const auto* const number = value.as<double>()) {
    to += number_of(*number);
  } else if (const auto* const text = value.as<std::string>()) {
    to += text_of(*text);
  } else if (const auto* const list = value.as<CodedValue::List>()) {
    write_joined(to, '[', ']', *list, [&](const CodedValue& one) { write(to, one); });
  } else if (const auto* const entries = value.as<CodedValue::Entries>()) {
    write_joined(to, '{', '}', *entries, [&](const CodedValue::Entry& entry) {
      to += text_of(entry.name) + ": ";
      write(to, entry.value);
    });
  } else {
    to += "null";
  }
}

class Reader {
 public:
  explicit Reader(std::string_view text) : json_(text) {}

  CodedValue read() {
    CodedValue value = any(0);
    json_.finish("expected nothing more");
    return value;
  }

 private:
  CodedValue any(int depth) {
    if (depth == kDeepest) json_.fail("expected nothing so deep");
    switch (json_.peek()) {
      case '{':
        return entries(depth);
      case '[':
        return list(depth);
      case '"':
        return json_.string();
      default:
        break;
    }
    if (json_.take("null")) return nullptr;
    if (json_.take("true")) return true;
    if (json_.take("false")) return false;
    if (json_.take("NaN")) return std::numeric_limits<double>::quiet_NaN();
    if (json_.take("Infinity")) return std::numeric_limits<double>::infinity();
    if (json_.take("-Infinity")) return -std::numeric_limits<double>::infinity();
    return number();
  }

  CodedValue list(int depth) {
    CodedValue::List values;
    json_.items('[', ']', [&] { values.push_back(any(depth + 1)); });
    return values;
  }
  CodedValue entries(int depth) {
    CodedValue::Entries values;
    json_.items('{', '}', [&] {
      std::string name = json_.string();
      json_.expect(':');
      values.push_back({std::move(name), any(depth + 1)});
    });
    return values;
  }

  // Of the number that begins a text, or 0: JSON has no zero before other digits, and at least one
  // digit behind a point and in an exponent.
  static std::size_t number_length(std::string_view text) {
    std::size_t at = text.starts_with('-') ? 1 : 0;
    const auto digits = [&] {
      const std::size_t before = at;
      while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
      return at - before;
    };
    const bool has_zero = at < text.size() && text[at] == '0';
    const std::size_t whole = digits();
    if (whole == 0 || (has_zero && whole > 1)) return 0;
    if (at < text.size() && text[at] == '.') {
      ++at;
      if (digits() == 0) return 0;
    }
    if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
      ++at;
      if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
      if (digits() == 0) return 0;
    }
    return at;
  }

  // Whole, unless it has a fraction or an exponent or is too large for that.
  CodedValue number() {
    const std::string_view text = json_.rest().substr(0, number_length(json_.rest()));
    if (text.empty()) json_.fail("expected a value");
    const char *const first = text.data(), *const last = first + text.size();
    std::int64_t whole = 0;
    const auto as_whole = std::from_chars(first, last, whole);
    const bool has_more = as_whole.ptr != last &&
                          std::string_view(".eE").find(*as_whole.ptr) != std::string_view::npos;
    if (as_whole.ec == std::errc() && !has_more) {
      json_.skip(static_cast<std::size_t>(as_whole.ptr - first));
      return whole;
    }
    std::size_t bytes = 0;
    const std::optional<double> number = read_number_text(text, bytes);
    if (!number) json_.fail("expected a value");
    json_.skip(bytes);
    return *number;
  }

  JsonReader json_;
};

}  // namespace

std::string to_json(const CodedValue& value) {
  std::string text;
  write(text, value);
  return text;
}

CodedValue from_json(std::string_view text) { return Reader(text).read(); }

}  // namespace traingraph::mps
