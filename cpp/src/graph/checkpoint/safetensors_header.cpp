// The subset of JSON that a safetensors header is made of: one object of objects, whose values are
// strings and lists of whole numbers. Nothing nests deeper, so nothing recurses.
#include "graph/checkpoint/safetensors_header.h"

#include <limits>
#include <set>
#include <utility>

#include "runtime/files/json_text.h"

namespace traingraph {
namespace {

constexpr std::string_view kMetadata = "__metadata__";

class Reader {
 public:
  Reader(std::string_view text, const std::string& subject)
      : json_(text, subject, " of its header") {}

  SafetensorsHeader read() {
    SafetensorsHeader header;
    std::set<std::string> names;
    if (!json_.rest().starts_with('{')) json_.fail("expected '{' first");
    object([&] {
      std::string name = json_.string();
      if (!names.insert(name).second) json_.fail("'" + name + "' is there twice");
      json_.expect(':');
      if (name == kMetadata) {
        metadata(header);
      } else {
        header.tensors.push_back(entry(std::move(name)));
      }
    });
    json_.finish("expected nothing after the object");
    return header;
  }

 private:
  template <class Member>
  void object(Member member) {
    json_.items('{', '}', member);
  }

  void metadata(SafetensorsHeader& header) {
    object([&] {
      std::string key = json_.string();
      json_.expect(':');
      std::string value = json_.string();
      if (!header.metadata.emplace(key, std::move(value)).second) {
        json_.fail("'" + key + "' is there twice");
      }
    });
  }

  HeaderEntry entry(std::string name) {
    HeaderEntry result;
    result.name = std::move(name);
    std::set<std::string> seen;
    object([&] {
      const std::string key = json_.string();
      if (!seen.insert(key).second) json_.fail("'" + key + "' is there twice");
      json_.expect(':');
      if (key == "dtype") {
        result.type = json_.string();
      } else if (key == "shape") {
        json_.items('[', ']', [&] { result.shape.push_back(number()); });
      } else if (key == "data_offsets") {
        Shape offsets;
        json_.items('[', ']', [&] { offsets.push_back(number()); });
        if (offsets.size() != 2) json_.fail("expected two data_offsets");
        result.begin = offsets[0];
        result.end = offsets[1];
      } else {
        json_.fail("expected dtype, shape or data_offsets but got '" + key + "'");
      }
    });
    if (seen.size() != 3) {
      json_.fail("expected dtype, shape and data_offsets of '" + result.name + "'");
    }
    return result;
  }

  // A whole number without sign, fraction, exponent or leading zero.
  std::int64_t number() {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    const bool zero = json_.peek() == '0';
    std::int64_t value = 0;
    int digits = 0;
    for (; !json_.rest().empty(); ++digits) {
      const std::int64_t digit = json_.rest().front() - '0';
      if (digit < 0 || digit > 9) break;
      if (value > (kMost - digit) / 10) json_.fail("the number is too large");
      value = value * 10 + digit;
      json_.skip(1);
    }
    if (digits == 0) json_.fail("expected a whole number");
    if (digits > 1 && zero) json_.fail("expected a number without leading zero");
    return value;
  }

  JsonReader json_;
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
