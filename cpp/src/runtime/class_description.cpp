// `ClassDescriber`, the part of the builder of descriptions that no class is a type of.
#include <traingraph/describe.h>

namespace traingraph {

Argument make_argument(std::string_view name, ValueType type, const char* text,
                       std::optional<std::any> value_if_absent, const Range* range) {
  return {std::string(name), type, text, std::move(value_if_absent), range, nullptr};
}

ClassDescriber::ClassDescriber(std::string_view name, std::string_view summary) {
  made_.name = name;
  made_.summary = summary;
}
ClassDescriber::ClassDescriber(const ClassDescriber&) = default;
ClassDescriber::~ClassDescriber() = default;

Property ClassDescriber::property_of(std::string_view name, ValueType type, const char* text,
                                     Read get) {
  return {std::string(name), type, text, std::move(get), nullptr};
}

void ClassDescriber::add_property(std::string_view name, ValueType type, const char* text,
                                  Read get) {
  last_ = name;
  made_.properties.push_back(property_of(name, type, text, std::move(get)));
}

void ClassDescriber::keep(Argument argument, Read read) {
  argument.read = std::move(read);
  last_ = argument.name;
  arguments_.push_back(std::move(argument));
}

void ClassDescriber::add_argument(Argument argument, std::function<void(void*, const Given&)> set) {
  arguments_.push_back(std::move(argument));
  setters_.push_back(std::move(set));
}

void ClassDescriber::add_form(std::vector<Argument> arguments, Maker make) {
  made_.forms.push_back({std::move(arguments), std::move(make)});
}

void ClassDescriber::add_factory(const char* name, const char* text,
                                 std::vector<std::vector<Argument>> forms, const Maker& make) {
  Factory made{name, text, {}};
  for (std::vector<Argument>& arguments : forms) made.forms.push_back({std::move(arguments), make});
  made_.factories.push_back(std::move(made));
}

void ClassDescriber::restrict_last(const Range& range) {
  const auto restrict = [&](auto& all) {
    for (auto& one : all) {
      if (one.name == last_) one.range = &range;
    }
  };
  restrict(arguments_);
  restrict(made_.properties);
}

void ClassDescriber::keep_setters() {
  made_.set_fields = [setters = setters_](void* value, const Given& given) {
    for (const auto& set : setters) set(value, given);
  };
}

std::vector<std::string> ClassDescriber::names() const {
  std::vector<std::string> names;
  for (const Argument& argument : arguments_) names.push_back(argument.name);
  return names;
}

}  // namespace traingraph
