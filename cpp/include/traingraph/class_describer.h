// `ClassDescriber`, the part of the builder of descriptions that no class is a type of, and what
// functions take and give by their types. Include <traingraph/describe.h>.
#pragma once

#include <any>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <traingraph/class_description.h>

namespace traingraph {

// An argument of a function, whose type the function tells.
struct Taken {
  const char* name;
  const char* text;  // one line
  std::optional<std::any> value_if_absent = std::nullopt;
  const Range* range = nullptr;  // of numbers
};

namespace describing {

template <class... T>
struct Types {};
template <class First, class... T>
Types<T...> behind_first(Types<First, T...>);

// What a function takes beside the object that it is a member of.
template <class Result, class C, class... T>
Types<T...> taken_by(Result (C::*)(T...));
template <class Result, class C, class... T>
Types<T...> taken_by(Result (C::*)(T...) const);
template <class Result, class... T>
Types<T...> taken_by(Result (*)(T...));
template <class F>
auto taken_by(F) -> decltype(taken_by(&F::operator()));

// One that is changed belongs to its caller: a shared pointer has it.
template <class T>
constexpr bool kIsChanged =
    std::is_lvalue_reference_v<T> && !std::is_const_v<std::remove_reference_t<T>>;
template <class T>
using Held = std::conditional_t<kIsChanged<T>, std::shared_ptr<std::remove_cvref_t<T>>,
                                std::remove_cvref_t<T>>;
template <class T>
decltype(auto) passed(Held<T>& held) {
  if constexpr (kIsChanged<T>) {
    return (*held);
  } else {
    return std::move(held);
  }
}

// What `call` gives, and nothing of a function that gives nothing.
template <class Call>
std::any result_of(Call call) {
  if constexpr (std::is_void_v<std::invoke_result_t<Call>>) {
    call();
    return {};
  } else {
    return any_of<std::remove_cvref_t<std::invoke_result_t<Call>>>(call());
  }
}

// Calls `call` with what is given, in its order, behind `object` where there is one.
template <class Call, class... T, class... Object>
std::any called(const Call& call, const Given& given, Types<T...>, Object&... object) {
  return [&]<std::size_t... k>(std::index_sequence<k...>) {
    std::tuple<Held<T>...> held{given.at<Held<T>>(k)...};
    return result_of([&]() -> decltype(auto) {
      return std::invoke(call, object..., passed<T>(std::get<k>(held))...);
    });
  }(std::index_sequence_for<T...>());
}

}  // namespace describing

// What does not depend on the class: compiled once.
class TRAINGRAPH_API ClassDescriber {
 public:
  operator ClassDescription() const { return made_; }

 protected:
  using Read = Callable<std::any(const void*)>;
  using Maker = Callable<std::any(const Given&)>;

  ClassDescriber(std::string_view name, std::string_view summary);
  ClassDescriber(const ClassDescriber&);
  ~ClassDescriber();

  static Property property_of(std::string_view name, ValueType type, const char* text, Read get);
  void add_property(std::string_view name, ValueType type, const char* text, Read get);
  // A property that the object is made with.
  void keep(Argument argument, Read read);
  void add_argument(Argument argument, Callable<void(void*, const Given&)> set);
  void add_form(std::vector<Argument> arguments, Maker make);
  void add_factory(const char* name, const char* text, std::vector<std::vector<Argument>> forms,
                   const Maker& make);
  // `types` are those of `taken`; logic_error for a default of another type.
  Method method_of(const char* name, const char* text, ValueType result,
                   const std::vector<Taken>& taken, const std::vector<ValueType>& types,
                   decltype(Method::call) call);
  void restrict_last(const Range& range);
  void let_last_wait();
  void add_support(LayerSample (*sample)(DataType));
  // As what sets the fields of a value.
  void keep_setters();
  std::vector<std::string> names() const;

  ClassDescription made_;
  std::string last_;  // what was described last
  std::vector<Argument> arguments_;
  std::vector<Callable<void(void*, const Given&)>> setters_;
};

}  // namespace traingraph
