// `ClassDescriber`, the part of the builder of descriptions that no class is a type of.
#include <stdexcept>

#include <traingraph/class_describer.h>
#include <traingraph/device.h>

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

void ClassDescriber::add_argument(Argument argument, Callable<void(void*, const Given&)> set) {
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

Method ClassDescriber::method_of(const char* name, const char* text, ValueType result,
                                 const std::vector<Taken>& taken,
                                 const std::vector<ValueType>& types, decltype(Method::call) call) {
  last_ = name;
  Form form;
  for (std::size_t k = 0; k < types.size(); ++k) {
    const Taken& one = taken.at(k);
    const std::optional<std::any>& absent = one.value_if_absent;
    if (absent && (absent->has_value() ? absent->type() != *types[k].type : !types[k].optional)) {
      throw std::logic_error(made_.name + "." + name + ": a default of another type than " +
                             one.name);
    }
    form.arguments.push_back(make_argument(one.name, types[k], one.text, absent, one.range));
  }
  return {name, text, result, {std::move(form)}, std::move(call)};
}

void ClassDescriber::add_support(LayerSample (*sample)(DataType)) {
  Method added = method_of(
      "supports_data_type",
      "Whether the device has the kernels to compute such layers in this type, forward and "
      "gradient; asked of MLCLayer itself, whether it computes in the type at all.",
      describing::value_type<bool>(),
      {{"data_type", "The type of an element."}, {"on", "The device."}},
      {describing::value_type<DataType>(), describing::value_type<Device>()},
      [sample](void*, const Given& given) {
        const LayerSample made = sample(given.get<DataType>("data_type"));
        return std::any(has_kernels(*made.layer, made.sources, given.get<Device>("on")));
      });
  made_.class_functions.push_back(std::move(added));
}

void ClassDescriber::let_last_wait() {
  const auto let_wait = [&](auto& all) {
    for (auto& one : all) {
      if (one.name == last_) one.may_wait = true;
    }
  };
  let_wait(made_.functions);
  let_wait(made_.class_functions);
  let_wait(made_.properties);
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
