#include <algorithm>

#include <traingraph/class_description.h>

#include "runtime/range.h"

namespace traingraph {
namespace {

double number_of(const std::any& value) {
  if (const auto* number = std::any_cast<float>(&value)) return static_cast<double>(*number);
  return static_cast<double>(std::any_cast<std::int64_t>(value));
}

}  // namespace

void check_ranges(const ClassDescription& description, const void* value,
                  const std::string& subject) {
  for (const Argument& argument : description.forms.front().arguments) {
    if (argument.range == nullptr) continue;
    const auto property =
        std::find_if(description.properties.begin(), description.properties.end(),
                     [&](const Property& candidate) { return candidate.name == argument.name; });
    expect_in(*argument.range, subject, argument.name.c_str(),
              number_of(property->get(const_cast<void*>(value))));
  }
}

}  // namespace traingraph
