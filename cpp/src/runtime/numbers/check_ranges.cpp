#include <traingraph/class_description.h>

#include "runtime/numbers/range.h"

namespace traingraph {
namespace {

double number_of(const std::any& value) {
  if (const auto* number = std::any_cast<float>(&value)) return static_cast<double>(*number);
  return static_cast<double>(std::any_cast<std::int64_t>(value));
}

}  // namespace

void check_ranges(const ClassDescription& description, const void* value,
                  const std::string& subject) {
  for (const Property& property : description.properties) {
    if (property.range == nullptr) continue;
    expect_in(*property.range, subject, property.name.c_str(), number_of(property.get(value)));
  }
}

}  // namespace traingraph
