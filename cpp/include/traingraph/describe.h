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
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <traingraph/class_description.h>

namespace traingraph {

// What does not depend on the class: compiled once.
class TRAINGRAPH_API ClassDescriber {
 public:
  operator ClassDescription() const { return made_; }

 protected:
  using Read = std::function<std::any(const void*)>;
  using Maker = std::function<std::any(const Given&)>;

  ClassDescriber(std::string_view name, std::string_view summary);
  ClassDescriber(const ClassDescriber&);
  ~ClassDescriber();

  static Property property_of(std::string_view name, ValueType type, const char* text, Read get);
  void add_property(std::string_view name, ValueType type, const char* text, Read get);
  // A property that the object is made with.
  void keep(Argument argument, Read read);
  void add_argument(Argument argument, std::function<void(void*, const Given&)> set);
  void add_form(std::vector<Argument> arguments, Maker make);
  void add_factory(const char* name, const char* text, std::vector<std::vector<Argument>> forms,
                   const Maker& make);
  void restrict_last(const Range& range);
  // As what sets the fields of a value.
  void keep_setters();
  std::vector<std::string> names() const;

  ClassDescription made_;
  std::string last_;  // what was described last
  std::vector<Argument> arguments_;
  std::vector<std::function<void(void*, const Given&)>> setters_;
};

// Base: what owns objects in C++, std::shared_ptr<Base>; void for values. Parent: the base class in
// Python, void for none; T where several classes of Python are T. A base begins where its objects
// begin, for no class has two.
template <class T, class Base = void, class Parent = Base>
class Describing : public ClassDescriber {
  template <class Get>
  using ValueOf = std::remove_cvref_t<std::invoke_result_t<Get, T&>>;

 public:
  Describing(std::string_view name, std::string_view summary) : ClassDescriber(name, summary) {
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
  Describing& property(std::string_view name, Get get, const char* text) {
    return add_property(name, get, text, false);
  }
  // `set` takes the object and a value; a member is set as it is, when its numbers are in range.
  template <class Get, class Set>
  Describing& settable(std::string_view name, Get get, Set set, const char* text) {
    add_property(name, get, text, false);
    using Value = ValueOf<Get>;
    made_.properties.back().set = [set](void* self, const std::any& value) {
      std::invoke(set, *static_cast<T*>(self), std::any_cast<const Value&>(value));
    };
    return *this;
  }
  template <class Value, class Owner>
  Describing& settable(std::string_view name, Value Owner::* member, const char* text) {
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
  Describing& settable_part(std::string_view name, Get get, Set set, Part part, const char* text) {
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
  Describing& optional_property(std::string_view name, Get get, const char* text) {
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
  Describing& function(std::string_view name, Call call, const char* text) {
    made_.functions.push_back(property_by(name, call, text, false));
    return *this;
  }
  template <class Call>
  Describing& optional_function(std::string_view name, Call call, const char* text) {
    made_.functions.push_back(property_by(name, call, text, true));
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
  Describing& argument(std::string_view name, Get get, const char* text,
                       Absent... value_if_absent) {
    return kept_argument(name, get, text, std::move(value_if_absent)...).property(name, get, text);
  }
  // The same of something that is no property, or one of the base class.
  template <class Get>
  Describing& kept_argument(std::string_view name, Get get, const char* text) {
    return keep_argument(traingraph::argument<ValueOf<Get>>(name, text), get);
  }
  template <class Get>
  Describing& kept_argument(std::string_view name, Get get, const char* text,
                            ValueOf<Get> value_if_absent) {
    return keep_argument(traingraph::argument(name, std::move(value_if_absent), text), get);
  }
  // None, which is the default, is what ValueOf<Get>{} is.
  template <class Get>
  Describing& optional_argument(std::string_view name, Get get, const char* text) {
    return keep_argument(traingraph::optional_argument<ValueOf<Get>>(name, text), get);
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
    add_argument(traingraph::argument<Value>(name, std::invoke(get, whole), text),
                 [name = std::string(name), set](void* value, const Given& given) {
                   std::invoke(set, *static_cast<T*>(value), given.get<Value>(name));
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
    restrict_last(range);
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
    made_.coded_form = Form{arguments_, making(std::move(make))};
    return *this;
  }
  // The form of the fields.
  Describing& made_of_fields(const char* text) {
    made_.text = text;
    keep_setters();
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
    add_form(std::move(arguments), making(std::move(make)));
    return *this;
  }
  Describing& text(const char* text) {
    made_.text = text;
    return *this;
  }
  template <class Make>
  Describing& factory(const char* name, const char* text, std::vector<std::vector<Argument>> forms,
                      Make make) {
    add_factory(name, text, std::move(forms), making(std::move(make)));
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
  Describing& told(std::string_view name, Get get) {
    made_.told.push_back(property_by(name, get, "", false));
    return *this;
  }

 private:
  static std::any owned(T value) {
    return std::shared_ptr<void>(std::make_shared<T>(std::move(value)));
  }
  template <class F>
  static Maker making(F make) {
    return [make = std::move(make)](const Given& given) -> std::any {
      if constexpr (std::is_void_v<Base>) {
        return owned(make(given));
      } else {
        return std::shared_ptr<Base>(make(given));
      }
    };
  }
  template <class Get>
  static Read reading(Get get) {
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
  static Property property_by(std::string_view name, Get get, const char* text, bool optional) {
    return property_of(name, describing::value_type<ValueOf<Get>>(optional), text, reading(get));
  }
  template <class Get>
  Describing& add_property(std::string_view name, Get get, const char* text, bool optional) {
    ClassDescriber::add_property(name, describing::value_type<ValueOf<Get>>(optional), text,
                                 reading(get));
    return *this;
  }
  template <class Get>
  Describing& keep_argument(Argument argument, Get get) {
    keep(std::move(argument), reading(get));
    return *this;
  }
  Describing& add_parameter(std::string_view name, TensorParameter& (T::*get)(), const char* text,
                            bool optional) {
    add_property(name, [get](T& self) { return (self.*get)().tensor; }, text, optional);
    return add_property(
        std::string(name) + "_parameter",
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
    add_argument(std::move(added), [name, member](void* value, const Given& given) {
      static_cast<T*>(value)->*member = given.get<Value>(name);
    });
    return *this;
  }
  template <class... Values, std::size_t... k>
  static std::shared_ptr<T> made(const Given& given, const std::vector<std::string>& names,
                                 std::index_sequence<k...>) {
    return std::make_shared<T>(given.get<Values>(names[k])...);
  }
};

}  // namespace traingraph
