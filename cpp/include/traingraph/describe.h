#pragma once

#include <algorithm>
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

// Of what the public classes consist: how objects are made, and what they tell. Each class has one
// description, beside it. Bindings, their documentation, copies and checks of ranges read that.
//
//   const ClassDescription& Concatenation::class_description() {
//     static const ClassDescription description =
//         Describing<Concatenation, Layer>("MLCConcatenationLayer", "Joins sources along one
//         axis.")
//             .argument("dimension", &Concatenation::dimension, "The axis.", 1)
//             .made_of<std::int64_t>("Shapes: the other extents agree.");
//     return description;
//   }
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
  bool is_part = false;  // of an argument: copies and archives have it there
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
  // Null: a value, which is copied, or the base of all. The type itself: one of several classes
  // that are one in C++.
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

template <class T>
Argument argument(const std::string& name, const char* text, const Range* range = nullptr) {
  return {name, describing::value_type<T>(), text, std::nullopt, range, nullptr};
}
template <class T>
Argument argument(const std::string& name, T value_if_absent, const char* text,
                  const Range* range = nullptr) {
  return {name,   describing::value_type<T>(), text, std::any(std::move(value_if_absent)), range,
          nullptr};
}
template <class T>
Argument optional_argument(const std::string& name, const char* text) {
  return {name, describing::value_type<T>(true), text, std::any(), nullptr, nullptr};
}

// Base: what owns objects in C++, std::shared_ptr<Base>; void for values. Parent: the base class in
// Python; T where several classes of Python are T. A base begins where its objects begin, for no
// class has two.
template <class T, class Base = void, class Parent = Base>
class Describing {
  template <class Get>
  using ValueOf = std::remove_cvref_t<std::invoke_result_t<Get, T&>>;

 public:
  Describing(std::string name, std::string summary) {
    made_.name = std::move(name);
    made_.summary = std::move(summary);
    made_.type = &typeid(T);
    made_.bytes = sizeof(T);
    made_.alignment = alignof(T);
    made_.owner = [](const std::any& made) -> const void* {
      return std::any_cast<std::shared_ptr<Base>>(&made);
    };
    made_.object = [](const std::any& made) -> void* {
      return std::any_cast<const std::shared_ptr<Base>&>(made).get();
    };
    if constexpr (std::is_void_v<Base>) {
      made_.copy = [](const void* value) { return std::any(*static_cast<const T*>(value)); };
      made_.owned = [](const std::any& value) { return owned(std::any_cast<const T&>(value)); };
    } else if constexpr (!std::is_same_v<T, Base>) {
      static_assert(std::is_base_of_v<Base, Parent> && std::is_base_of_v<Parent, T>);
      made_.base = &typeid(Parent);
    }
  }

  // `get` is a member, or a function of the object.
  template <class Get>
  Describing& property(const std::string& name, Get get, const char* text) {
    return add_property(name, get, text, false);
  }
  // `set` takes the object and a value; a member is set as it is, when its numbers are in range.
  template <class Get, class Set>
  Describing& settable(const std::string& name, Get get, Set set, const char* text) {
    add_property(name, get, text, false);
    using Value = ValueOf<Get>;
    made_.properties.back().set = [set](void* self, const std::any& value) {
      std::invoke(set, *static_cast<T*>(self), std::any_cast<const Value&>(value));
    };
    return *this;
  }
  template <class Value, class Owner>
  Describing& settable(const std::string& name, Value Owner::* member, const char* text) {
    return settable(
        name, member,
        [member, subject = made_.name](T& self, const Value& value) {
          if constexpr (requires { self.check_numbers(subject); }) {
            T changed = self;
            changed.*member = value;
            changed.check_numbers(subject);
            self = std::move(changed);
          } else {
            self.*member = value;
          }
        },
        text);
  }
  // A part of a value that `get` and `set` are for: a member of it, or a function that finds it.
  template <class Get, class Set, class Part>
  Describing& settable_part(const std::string& name, Get get, Set set, Part part,
                            const char* text) {
    return settable(
        name,
        [get, part](const T& self) {
          const ValueOf<Get> whole = std::invoke(get, self);
          return std::invoke(part, whole);
        },
        [get, set, part](T& self, const auto& value) {
          ValueOf<Get> whole = std::invoke(get, self);
          std::invoke(part, whole) = value;
          std::invoke(set, self, whole);
        },
        text);
  }
  // Of the property before: copies and archives have it in an argument.
  Describing& part_of_argument() {
    made_.properties.back().is_part = true;
    return *this;
  }
  // None where it gives a null pointer.
  template <class Get>
  Describing& optional_property(const std::string& name, Get get, const char* text) {
    return add_property(name, get, text, true);
  }
  // Those of a value that the object has, but for names that it has already. They are only read.
  template <class Value>
  Describing& properties_of(const Value& (T::*get)() const) {
    for (Property property : Value::class_description().properties) {
      const auto known = [&](const Property& own) { return own.name == property.name; };
      if (std::ranges::any_of(made_.properties, known)) continue;
      property.set = nullptr;
      property.get = [get, of = property.get](const void* self) {
        return of(&(static_cast<const T*>(self)->*get)());
      };
      made_.properties.push_back(std::move(property));
    }
    return *this;
  }

  // Called without arguments; `call` is a function of the object.
  template <class Call>
  Describing& function(const std::string& name, Call call, const char* text) {
    made_.functions.push_back(property_of(name, call, text, false));
    return *this;
  }
  template <class Call>
  Describing& optional_function(const std::string& name, Call call, const char* text) {
    made_.functions.push_back(property_of(name, call, text, true));
    return *this;
  }

  // A parameter of a layer, "gamma" and "gamma_parameter": its tensor, and the layer's own object.
  Describing& parameter(const char* name, TensorParameter& (T::*get)(), const char* text) {
    return add_parameter(name, get, text, false);
  }
  // None where the layer has none.
  Describing& optional_parameter(const char* name, TensorParameter& (T::*get)(), const char* text) {
    return add_parameter(name, get, text, true);
  }

  // A property that the object is made with, in the order of these calls.
  template <class Get, class... Absent>
  Describing& argument(const std::string& name, Get get, const char* text,
                       Absent... value_if_absent) {
    return kept_argument(name, get, text, std::move(value_if_absent)...).property(name, get, text);
  }
  // The same of something that is no property, or one of the base class.
  template <class Get>
  Describing& kept_argument(const std::string& name, Get get, const char* text) {
    return keep(traingraph::argument<ValueOf<Get>>(name, text), get);
  }
  template <class Get>
  Describing& kept_argument(const std::string& name, Get get, const char* text,
                            ValueOf<Get> value_if_absent) {
    return keep(traingraph::argument(name, std::move(value_if_absent), text), get);
  }
  // None, which is the default, is what ValueOf<Get>{} is.
  template <class Get>
  Describing& optional_argument(const std::string& name, Get get, const char* text) {
    return keep(traingraph::optional_argument<ValueOf<Get>>(name, text), get);
  }
  // Arguments that no property shows, and that no archive has.
  Describing& takes(const std::vector<Argument>& arguments) {
    arguments_.insert(arguments_.end(), arguments.begin(), arguments.end());
    return *this;
  }
  // A member of a value, which is what T{} has unless it is given.
  template <class Value, class Owner>
  Describing& field(const char* name, Value Owner::* member, const char* text,
                    const Range* range = nullptr) {
    return add_field(traingraph::argument<Value>(name, T{}.*member, text, range), member);
  }
  // One that can be set later, too.
  template <class Value, class Owner>
  Describing& settable_field(const char* name, Value Owner::* member, const char* text,
                             const Range* range = nullptr) {
    field(name, member, text, range);
    made_.properties.pop_back();
    return settable(name, member, text);
  }
  // One that is no member.
  template <class Get, class Set>
  Describing& settable_field(const char* name, Get get, Set set, const char* text) {
    using Value = ValueOf<Get>;
    T whole{};
    arguments_.push_back(traingraph::argument<Value>(name, std::invoke(get, whole), text));
    setters_.push_back([name, set](T& value, const Given& given) {
      std::invoke(set, value, given.get<Value>(name));
    });
    return settable(name, get, set, text);
  }
  template <class Value>
  Describing& required_field(const char* name, Value T::* member, const char* text,
                             const Range* range = nullptr) {
    return field(name, member, text, range).required();
  }
  // Of the argument before: it has to be given.
  Describing& required() {
    arguments_.back().value_if_absent.reset();
    return *this;
  }

  // Several classes of Python are T, and none of them is the base of the others.
  Describing& one_of_several() {
    made_.type = made_.base;
    made_.holds = [](const void* object) {
      return dynamic_cast<const T*>(static_cast<const Parent*>(object)) != nullptr;
    };
    return *this;
  }

  // The form of the arguments so far, by the constructor that takes these types.
  template <class... Values>
  Describing& made_of(const char* text) {
    made_.text = text;
    return form(arguments_, [names = names()](const Given& given) {
      return made<Values...>(given, names, std::index_sequence_for<Values...>());
    });
  }
  // The form of the arguments so far; `make` gives a shared pointer to the object.
  template <class Make>
  Describing& made_by(const char* text, Make make) {
    made_.text = text;
    return form(arguments_, std::move(make));
  }
  // The arguments so far are what copies and archives have, and no form that programs use.
  template <class Make>
  Describing& coded_by(Make make) {
    made_.coded_form = form_of(arguments_, std::move(make));
    return *this;
  }
  // The form of the fields.
  Describing& made_of_fields(const char* text) {
    made_.text = text;
    made_.set_fields = [setters = setters_](void* value, const Given& given) {
      for (const auto& set : setters) set(*static_cast<T*>(value), given);
    };
    return form(arguments_, [set = made_.set_fields, name = made_.name](const Given& given) {
      T value{};
      set(&value, given);
      if constexpr (requires { value.check(name); }) value.check(name);
      return value;
    });
  }
  // `make` gives a value, or a shared pointer to an object.
  template <class Make>
  Describing& form(std::vector<Argument> arguments, Make make) {
    made_.forms.push_back(form_of(std::move(arguments), std::move(make)));
    return *this;
  }
  Describing& text(const char* text) {
    made_.text = text;
    return *this;
  }
  template <class Make>
  Describing& factory(const char* name, const char* text, std::vector<std::vector<Argument>> forms,
                      Make make) {
    Factory made{name, text, {}};
    for (std::vector<Argument>& arguments : forms) {
      made.forms.push_back(form_of(std::move(arguments), make));
    }
    made_.factories.push_back(std::move(made));
    return *this;
  }
  // A value without copy().
  Describing& not_copied() {
    made_.is_copied = false;
    return *this;
  }
  Describing& sample(LayerSample (*make)(DataType)) {
    made_.sample = make;
    return *this;
  }
  template <class Get>
  Describing& told(const std::string& name, Get get) {
    made_.told.push_back(property_of(name, get, "", false));
    return *this;
  }

  operator ClassDescription() const { return made_; }

 private:
  static std::any owned(T value) {
    return std::shared_ptr<void>(std::make_shared<T>(std::move(value)));
  }
  template <class Make>
  static Form form_of(std::vector<Argument> arguments, Make make) {
    return {std::move(arguments), [make = std::move(make)](const Given& given) -> std::any {
              if constexpr (std::is_void_v<Base>) {
                return owned(make(given));
              } else {
                return std::shared_ptr<Base>(make(given));
              }
            }};
  }
  template <class Get>
  static std::function<std::any(const void*)> reading(Get get) {
    // A parameter's property hands out the layer's own object.
    return [get](const void* self) {
      T& object = *static_cast<T*>(const_cast<void*>(self));
      if constexpr (std::is_void_v<ValueOf<Get>>) {
        std::invoke(get, object);
        return std::any();
      } else {
        return describing::any_of<ValueOf<Get>>(std::invoke(get, object));
      }
    };
  }
  template <class Get>
  static Property property_of(std::string name, Get get, const char* text, bool optional) {
    return {std::move(name), describing::value_type<ValueOf<Get>>(optional), text, reading(get),
            nullptr};
  }
  template <class Get>
  Describing& add_property(std::string name, Get get, const char* text, bool optional) {
    made_.properties.push_back(property_of(std::move(name), get, text, optional));
    return *this;
  }
  template <class Get>
  Describing& keep(Argument argument, Get get) {
    argument.read = reading(get);
    arguments_.push_back(std::move(argument));
    return *this;
  }
  Describing& add_parameter(const std::string& name, TensorParameter& (T::*get)(), const char* text,
                            bool optional) {
    add_property(name, [get](T& self) { return (self.*get)().tensor; }, text, optional);
    return add_property(
        name + "_parameter",
        [get](T& self) {
          TensorParameter& parameter = (self.*get)();
          return parameter.tensor != nullptr ? &parameter : nullptr;
        },
        optional ? "The parameter, or None." : "The parameter.", optional);
  }
  template <class Value, class Owner>
  Describing& add_field(Argument added, Value Owner::* member) {
    const std::string name = added.name;
    add_property(name, member, added.text.c_str(), false);
    setters_.push_back(
        [name, member](T& value, const Given& given) { value.*member = given.get<Value>(name); });
    arguments_.push_back(std::move(added));
    return *this;
  }
  template <class... Values, std::size_t... k>
  static std::shared_ptr<T> made(const Given& given, const std::vector<std::string>& names,
                                 std::index_sequence<k...>) {
    return std::make_shared<T>(given.get<Values>(names[k])...);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Argument& argument : arguments_) names.push_back(argument.name);
    return names;
  }

  ClassDescription made_;
  std::vector<Argument> arguments_;
  std::vector<std::function<void(T&, const Given&)>> setters_;
};

// InvalidArgument for the first number of a value outside the range that its description states.
TRAINGRAPH_API void check_ranges(const ClassDescription& description, const void* value,
                                 const std::string& subject);

// Those of ML Compute's layers and optimizers, each behind the classes that it needs.
using DescribedClass = const ClassDescription& (*)();
TRAINGRAPH_API const std::vector<DescribedClass>& layer_classes();
TRAINGRAPH_API const std::vector<DescribedClass>& optimizer_classes();

}  // namespace traingraph
