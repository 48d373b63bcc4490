#pragma once

#include <string>
#include <vector>

namespace traingraph::python {

struct EnumCase {
  const char* name;
  long value;
  const char* description;  // null where Apple has none
};

struct EnumRow {
  std::string name;
  const char* doc;
  bool is_set;  // cases are flags
  std::vector<EnumCase> cases;
};

const std::vector<EnumRow>& enum_table();
const std::vector<EnumRow>& mps_enum_table();

}  // namespace traingraph::python
