// The builder `Describing`, which writes the description of a class beside that class or its
// family:
//
//   const ClassDescription& Concatenation::class_description() {
//     static const ClassDescription description =
//         Describing<Concatenation, Layer>("MLCConcatenationLayer", "Joins sources along one
//         axis.")
//             .argument("dimension", &Concatenation::dimension, "The axis.", 1)
//             .made_of<std::int64_t>("Shapes: the other extents agree.");
//     return description;
//   }
#pragma once

#include <algorithm>
#include <any>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <traingraph/class_description.h>

namespace traingraph {

// Base: what owns objects in C++, std::shared_ptr<Base>; void for values. Parent: the base class in
// Python, void for none; T where several classes of Python are T. A base begins where its objects
// begin, for no class has two.
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
      if constexpr (!std::is_void_v<Parent>) made_.base = &typeid(Parent);
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
  // Of the property before: copies have it, and archives in another property.
  Describing& only_copied() {
    made_.properties.back().is_archived = false;
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
    add_field(traingraph::argument<Value>(name, T{}.*member, text), member);
    return range != nullptr ? in(*range) : *this;
  }
  // One that can be set later, too.
  template <class Value, class Owner>
  Describing& settable_field(const char* name, Value Owner::* member, const char* text,
                             const Range* range = nullptr) {
    field(name, member, text);
    made_.properties.pop_back();
    settable(name, member, text);
    return range != nullptr ? in(*range) : *this;
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
  // Of the argument or property before, or of both if it is both: what its number may be, or each
  // of its numbers.
  Describing& in(const Range& range) {
    const auto restrict = [&](auto& all) {
      for (auto& one : all) {
        if (one.name == last_) one.range = &range;
      }
    };
    restrict(arguments_);
    restrict(made_.properties);
    return *this;
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
    last_ = name;
    made_.properties.push_back(property_of(std::move(name), get, text, optional));
    return *this;
  }
  template <class Get>
  Describing& keep(Argument argument, Get get) {
    argument.read = reading(get);
    last_ = argument.name;
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
  std::string last_;  // what was described last
  std::vector<Argument> arguments_;
  std::vector<std::function<void(T&, const Given&)>> setters_;
};

}  // namespace traingraph
