// Writes and reads numbers as text in the same way under every locale, with the shortest digits
// that read back exactly.
#include "ir/number_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <locale>

namespace traingraph {
namespace {

// Digits × 10^exponent. Without a decimal point, which is what differs between locales.
struct Decimal {
  std::string digits;
  std::int64_t exponent = 0;

  double value() const {
    return std::strtod((digits + "e" + std::to_string(exponent)).c_str(), nullptr);
  }
};

// A positive number, rounded to so many digits.
Decimal rounded(double value, int count) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.*e", count - 1, value);
  const std::string text = buffer.data();  // d.ddde±dd
  const std::size_t e = text.find('e');
  Decimal decimal;
  std::copy_if(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(e),
               std::back_inserter(decimal.digits), [](char c) { return c >= '0' && c <= '9'; });
  decimal.exponent = std::stoi(text.substr(e + 1)) - (count - 1);
  return decimal;
}

// The fewest digits that read back as this number, which is 0 or positive.
Decimal shortest(double value) {
  for (int count = 1;; ++count) {
    Decimal decimal = rounded(value, count);
    if (decimal.value() == value) return decimal;
    // Below a power of two the next number is half as far as above it: what was rounded down may
    // be nearer to that, while rounded up it would not.
    decimal.digits = std::to_string(std::stoull(decimal.digits) + 1);
    if (decimal.value() == value) return decimal;
  }
}

std::string with_point(const std::string& digits, std::size_t before) {
  return before < digits.size() ? digits.substr(0, before) + "." + digits.substr(before) : digits;
}

std::string with_exponent(const Decimal& decimal) {
  const auto exponent = decimal.exponent + static_cast<std::int64_t>(decimal.digits.size()) - 1;
  const std::string size = std::to_string(std::abs(exponent));
  return with_point(decimal.digits, 1) + (exponent < 0 ? "e-" : "e+") +
         (size.size() < 2 ? "0" : "") + size;
}

std::string without_exponent(const Decimal& decimal, double value) {
  if (decimal.exponent >= 0) {
    // Whole, with the digits that it has and not zeros behind the shortest ones.
    std::array<char, 320> buffer{};
    std::snprintf(buffer.data(), buffer.size(), "%.0f", value);
    return buffer.data();
  }
  const auto places = static_cast<std::size_t>(-decimal.exponent);
  std::string digits = decimal.digits;
  if (digits.size() <= places) digits.insert(0, places + 1 - digits.size(), '0');
  return with_point(digits, digits.size() - places);
}

}  // namespace

PlainStream::PlainStream() { imbue(std::locale::classic()); }

std::string short_text(double value) {
  if (std::isnan(value)) return "nan";  // some libraries write its sign
  PlainStream text;
  text << value;
  return text.str();
}

std::string number_text(double value) {
  const double size = std::fabs(value);
  const Decimal decimal = shortest(size);
  const std::string scientific = with_exponent(decimal);
  const std::string plain = without_exponent(decimal, size);
  return (std::signbit(value) ? "-" : "") + (scientific.size() < plain.size() ? scientific : plain);
}

std::optional<double> read_number_text(std::string_view text, std::size_t& at) {
  // More than any exponent of a number, and far from what an exponent's type holds.
  constexpr std::int64_t kLargest = 1'000'000'000'000;
  const auto digit_at = [&](std::size_t i) {
    return i < text.size() && text[i] >= '0' && text[i] <= '9';
  };
  const auto is_at = [&](std::size_t i, std::string_view any) {
    return i < text.size() && any.find(text[i]) != std::string_view::npos;
  };

  std::size_t i = at;
  const bool negative = is_at(i, "-");
  if (negative) ++i;
  if (!digit_at(i)) return std::nullopt;
  Decimal decimal;
  for (; digit_at(i); ++i) decimal.digits += text[i];
  if (is_at(i, ".")) {
    for (++i; digit_at(i); ++i) {
      decimal.digits += text[i];
      --decimal.exponent;
    }
  }
  // An exponent without digits is none.
  const std::size_t sign = i + 1;
  const std::size_t first = is_at(sign, "+-") ? sign + 1 : sign;
  if (is_at(i, "eE") && digit_at(first)) {
    std::int64_t exponent = 0;
    for (i = first; digit_at(i); ++i) {
      exponent = std::min(exponent * 10 + (text[i] - '0'), kLargest);
    }
    decimal.exponent += is_at(sign, "-") ? -exponent : exponent;
  }

  const double value = decimal.value();
  const bool is_zero = decimal.digits.find_first_not_of('0') == std::string::npos;
  if (std::isinf(value) || (value == 0 && !is_zero)) return std::nullopt;
  at = i;
  return negative ? -value : value;
}

}  // namespace traingraph
