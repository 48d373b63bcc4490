#pragma once

#include <string>
#include <vector>

namespace traingraph::python {

struct EnumRow {
  std::string name;
  bool is_set;  // cases are flags
  const char* doc;
  // "MAX = 1: Max, AVERAGE: Average": names, values unless they count on, Apple's descriptions.
  std::string cases;
};

const std::vector<EnumRow>& enum_table();

}  // namespace traingraph::python
