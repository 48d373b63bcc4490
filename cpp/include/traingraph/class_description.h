// Descriptions of the public classes: how objects are made, and which properties they have.
// Bindings, documentation, copies and range checks read them; <traingraph/describe.h> writes them.
#pragma once

#include <any>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <traingraph/layer.h>
#include <traingraph/range.h>
#include <traingraph/tensor.h>

namespace traingraph {

// Height and width, or y and x.
struct Pair {
  std::int64_t y = 1;
  std::int64_t x = 1;
};

// A policy with the sizes that kUsePaddingSize has.
struct Padding {
  PaddingPolicy policy = PaddingPolicy::kSame;
  Pair sizes{0, 0};
};

// The type of a value in std::any. None is an empty one.
struct ValueType {
  const std::type_info* type = nullptr;
  bool optional = false;  // None is allowed
};

struct Argument {
  std::string name;
  ValueType type;
  std::string text;                         // one line
  std::optional<std::any> value_if_absent;  // none: it has to be given
  const Range* range = nullptr;             // of numbers
  // From an object; none where its form keeps something else.
  std::function<std::any(const void*)> read = nullptr;
  std::string accepted = {};  // the members of an enumeration that it may be; empty: all
};

// What an object is made of, by name.
class Given {
 public:
  void add(std::string_view name, std::any value) { values_.emplace_back(name, std::move(value)); }
  // Nothing for an argument of another form.
  const std::any* find(std::string_view name) const {
    for (const auto& [known, value] : values_) {
      if (known == name) return &value;
    }
    return nullptr;
  }
  // T{} for None, and for an argument of another form.
  template <class T>
  T get(std::string_view name) const {
    const std::any* value = find(name);
    if constexpr (std::is_default_constructible_v<T>) {
      if (value == nullptr || !value->has_value()) return T{};
    }
    return std::any_cast<T>(*value);
  }
  // Nothing for None, and for an argument of another form.
  template <class T>
  std::optional<T> get_optional(std::string_view name) const {
    const std::any* value = find(name);
    if (value == nullptr || !value->has_value()) return std::nullopt;
    return std::any_cast<T>(*value);
  }
  const auto& values() const { return values_; }

 private:
  std::vector<std::pair<std::string_view, std::any>> values_;
};

// One way to make an object. `make` gives what owns it: a shared pointer to the base, or to void.
struct Form {
  std::vector<Argument> arguments;
  std::function<std::any(const Given&)> make;
};

// A function of the class that makes an object.
struct Factory {
  std::string name;
  std::string text;
  std::vector<Form> forms;
};

struct Property {
  std::string name;
  ValueType type;
  std::string text;
  std::function<std::any(const void*)> get;
  std::function<void(void*, const std::any&)> set = nullptr;  // none: it is only read
  bool is_part = false;          // of an argument: copies and archives have it there
  bool is_archived = true;       // false: copies have it, and another property tells archives
  const Range* range = nullptr;  // of numbers
};

// A layer as small as can be, and what it reads.
struct LayerSample {
  LayerPtr layer;
  std::vector<TensorDescriptor> sources;
};

struct ClassDescription {
  std::string name;     // in Python
  std::string summary;  // one line
  std::string text;     // shapes, types, gradient, errors
  const std::type_info* type = nullptr;
  // Null: a value, which is copied, of its own, or the base of all. The type itself: one of several
  // classes that are one in C++.
  const std::type_info* base = nullptr;
  // Of one of several C++ classes that Python's binding takes for their base: whether an object is
  // of it. Null: each is.
  bool (*holds)(const void* object) = nullptr;
  std::size_t bytes = 0;
  std::size_t alignment = 0;
  std::vector<Form> forms;
  std::optional<Form> coded_form;  // what copies and archives have, if it is none of those
  std::vector<Factory> factories;
  std::vector<Property> properties;
  std::vector<Property> functions;  // called without arguments
  // What objects know besides, and no archive has.
  std::vector<Property> told;
  // The shared pointer and the object in what a form makes.
  const void* (*owner)(const std::any&) = nullptr;
  void* (*object)(const std::any&) = nullptr;
  // Of values: a copy as a value, and a value as what a form makes.
  std::any (*copy)(const void*) = nullptr;
  bool is_copied = true;  // whether programs can copy it
  std::any (*owned)(const std::any&) = nullptr;
  // Of values made of fields: sets the members that arguments are named after.
  std::function<void(void*, const Given&)> set_fields;
  LayerSample (*sample)(DataType) = nullptr;
};

namespace describing {

template <class T>
constexpr bool kIsOptional = false;
template <class T>
constexpr bool kIsOptional<std::optional<T>> = true;

template <class T>
ValueType value_type(bool optional = false) {
  if constexpr (kIsOptional<T>) {
    return value_type<typename T::value_type>(true);
  } else {
    return {&typeid(T), optional};
  }
}

template <class T>
std::any any_of(const T& value) {
  if constexpr (kIsOptional<T>) {
    return value ? std::any(*value) : std::any();
  } else if constexpr (requires { value.get() != nullptr; } || std::is_pointer_v<T>) {
    return value != nullptr ? std::any(value) : std::any();
  } else {
    return value;
  }
}

}  // namespace describing

// One without what reads it; `value_if_absent` as of Argument.
TRAINGRAPH_API Argument make_argument(std::string_view name, ValueType type, const char* text,
                                      std::optional<std::any> value_if_absent, const Range* range);
template <class T>
Argument argument(std::string_view name, const char* text, const Range* range = nullptr) {
  return make_argument(name, describing::value_type<T>(), text, std::nullopt, range);
}
template <class T>
Argument argument(std::string_view name, T value_if_absent, const char* text,
                  const Range* range = nullptr) {
  return make_argument(name, describing::value_type<T>(), text,
                       std::any(std::move(value_if_absent)), range);
}
template <class T>
Argument optional_argument(std::string_view name, const char* text, const Range* range = nullptr) {
  return make_argument(name, describing::value_type<T>(true), text, std::any(), range);
}

// InvalidArgument for the first number of a value outside the range that its description states.
TRAINGRAPH_API void check_ranges(const ClassDescription& description, const void* value,
                                 const std::string& subject);

// Those of ML Compute's layers and optimizers, each behind the classes that it needs.
using DescribedClass = const ClassDescription& (*)();
TRAINGRAPH_API const std::vector<DescribedClass>& layer_classes();
TRAINGRAPH_API const std::vector<DescribedClass>& optimizer_classes();

}  // namespace traingraph
