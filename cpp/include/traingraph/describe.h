// Over 400 lines: the words that descriptions are written in, one class for all of them.
//
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

#include <traingraph/class_describer.h>

namespace traingraph {

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
      made_.copied = [](const void* value) { return owned(*static_cast<const T*>(value)); };
      made_.adopted = [](void* value) { return std::shared_ptr<void>(static_cast<T*>(value)); };
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
      if constexpr (describing::kIsOptional<Value>) {
        const auto* const given = std::any_cast<typename Value::value_type>(&value);
        std::invoke(set, *static_cast<T*>(self), given != nullptr ? Value(*given) : Value());
      } else {
        std::invoke(set, *static_cast<T*>(self), std::any_cast<const Value&>(value));
      }
    };
    return *this;
  }
  template <class Value, class Owner>
  Describing& settable(std::string_view name, Value Owner::* member, const char* text) {
    if constexpr (requires(T& self) { self.check_numbers(made_.name); }) {
      return settable(
          name, member,
          [member, subject = made_.name](T& self, const Value& value) {
            T changed = self;
            changed.*member = value;
            changed.check_numbers(subject);
            self = std::move(changed);
          },
          text);
    } else {
      return settable(
          name, member, [member](T& self, const Value& value) { self.*member = value; }, text);
    }
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

  // `call` is a member, or takes the object first.
  template <class Call>
  Describing& function(const char* name, Call call, const char* text,
                       const std::vector<Taken>& taken = {}) {
    return add_function(name, call, text, taken, false);
  }
  // None where it gives a null pointer.
  template <class Call>
  Describing& optional_function(const char* name, Call call, const char* text,
                                const std::vector<Taken>& taken = {}) {
    return add_function(name, call, text, taken, true);
  }
  // One that gives nothing here, and True in Python, where Apple's tells by it that it did not
  // fail.
  template <class Call>
  Describing& action(const char* name, Call call, const char* text,
                     const std::vector<Taken>& taken = {}) {
    add_function(name, call, text, taken, false);
    Method& added = made_.functions.back();
    added.result = describing::value_type<bool>();
    added.call = [act = std::move(added.call)](void* self, const Given& given) {
      act(self, given);
      return std::any(true);
    };
    return *this;
  }
  // One of several forms; `call` takes the object and what is given.
  template <class Call>
  Describing& function_of_forms(const char* name, const char* text,
                                std::vector<std::vector<Argument>> forms, Call call) {
    using Result = std::invoke_result_t<Call, T&, const Given&>;
    Method added = method_of(name, text, describing::value_type<std::remove_cvref_t<Result>>(), {},
                             {}, [call](void* self, const Given& given) {
                               return describing::result_of([&]() -> decltype(auto) {
                                 return std::invoke(call, *static_cast<T*>(self), given);
                               });
                             });
    added.forms.clear();
    for (std::vector<Argument>& arguments : forms) {
      added.forms.push_back({std::move(arguments), nullptr});
    }
    made_.functions.push_back(std::move(added));
    return *this;
  }
  // One of the class, without an object.
  template <class Call>
  Describing& class_function(const char* name, Call call, const char* text,
                             const std::vector<Taken>& taken = {}) {
    const auto types = decltype(describing::taken_by(call)){};
    made_.class_functions.push_back(
        method_by<>(name, call, text, taken, types, [call](void*, const Given& given) {
          return describing::called(call, given, decltype(types){});
        }));
    return *this;
  }
  // Of the function before: `wait` ends before it is called, and other threads may be waited for.
  template <class Wait>
  Describing& waits_first(Wait wait) {
    made_.functions.back().wait_first = [wait](void* self, const Given& given) {
      wait(*static_cast<const T*>(self), given);
    };
    return *this;
  }
  // Of the function or property before: other threads may be waited for.
  Describing& may_wait() {
    let_last_wait();
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
    add_field(name, traingraph::argument<Value>(name, T{}.*member, text), member);
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
                 [name, set](void* value, const Given& given) {
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

  // A member of a record.
  template <class Value, class Owner>
  Describing& recorded(const char* name, Value Owner::* member, const char* text) {
    return add_field(
        name, make_argument(name, describing::value_type<Value>(), text, std::nullopt, nullptr),
        member);
  }
  // Pickles keep what is recorded.
  Describing& is_record() {
    made_.copied = nullptr;
    keep_setters();
    made_.state = Form{arguments_, [set = made_.set_fields](const Given& given) {
                         T value{};
                         set(&value, given);
                         return owned(std::move(value));
                       }};
    return *this;
  }
  // What repr() tells behind the class's name.
  template <class Show>
  Describing& repr(Show show) {
    made_.repr = telling(show);
    return *this;
  }
  // What str() gives.
  template <class Print>
  Describing& str(Print print) {
    made_.str = telling(print);
    return *this;
  }
  // By operator==; objects that are the same have the same `hash`.
  template <class Hash>
  Describing& compared(Hash hash) {
    made_.equal = [](const void* one, const void* other) {
      return *static_cast<const T*>(one) == *static_cast<const T*>(other);
    };
    made_.hash = [hash](const void* self) -> std::size_t {
      return std::invoke(hash, *static_cast<const T*>(self));
    };
    return *this;
  }
  // The same is one object alone, whatever stands for it in Python.
  Describing& compared_by_identity() {
    made_.equal = std::equal_to<const void*>();
    made_.hash = [](const void* self) { return reinterpret_cast<std::uintptr_t>(self) >> 4; };
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
    made_.copied = nullptr;
    return *this;
  }
  // An object whose `copy` gives a shared pointer to another one.
  template <class Copy>
  Describing& copied_by(Copy copy) {
    made_.copied = [copy](const void* self) -> std::any {
      return std::shared_ptr<Base>(std::invoke(copy, *static_cast<const T*>(self)));
    };
    return *this;
  }
  Describing& sample(LayerSample (*make)(DataType)) {
    made_.sample = make;
    return support(make);
  }
  // A class function that tells whether a device has the kernels of such a layer.
  Describing& support(LayerSample (*make)(DataType)) {
    add_support(make);
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
  template <class Tell>
  static Callable<std::string(const void*)> telling(Tell tell) {
    return [tell](const void* self) -> std::string {
      return std::invoke(tell, *static_cast<const T*>(self));
    };
  }
  template <class... Self, class Call, class... Values>
  Method method_by(const char* name, const Call&, const char* text, const std::vector<Taken>& taken,
                   describing::Types<Values...>, decltype(Method::call) call,
                   bool optional = false) {
    using Result = std::remove_cvref_t<std::invoke_result_t<Call, Self..., Values...>>;
    return method_of(name, text, describing::value_type<Result>(optional), taken,
                     {describing::value_type<describing::Held<Values>>()...}, std::move(call));
  }
  template <class Call>
  Describing& add_function(const char* name, Call call, const char* text,
                           const std::vector<Taken>& taken, bool optional) {
    const auto types = [] {
      auto all = decltype(describing::taken_by(call)){};
      if constexpr (std::is_member_function_pointer_v<Call>) {
        return all;
      } else {
        return decltype(describing::behind_first(all)){};
      }
    }();
    made_.functions.push_back(method_by<T&>(
        name, call, text, taken, types,
        [call](void* self, const Given& given) {
          return describing::called(call, given, decltype(types){}, *static_cast<T*>(self));
        },
        optional));
    return *this;
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
  Describing& add_field(const char* name, Argument added, Value Owner::* member) {
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
