#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <traingraph/types.h>

namespace traingraph {

// What the JSON header says of one tensor, not yet compared with anything.
struct HeaderEntry {
  std::string name;
  std::string type;
  Shape shape;
  std::int64_t begin = 0;  // bytes from the end of the header
  std::int64_t end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<HeaderEntry> tensors;
};

// Reads exactly the JSON that such a header consists of. Raises InvalidArgument with `subject`
// before the text.
SafetensorsHeader parse_header(std::string_view text, const std::string& subject);

// The same as text.
std::string to_json(const SafetensorsHeader& header);

}  // namespace traingraph
