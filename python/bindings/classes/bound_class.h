// Members of bound classes, defined through one type-erased function. pybind11's own definitions
// are templates of the callable and of every argument, which take most of the bindings' compile
// time. Here a member leaves one small function, its body; all else is compiled once.
#pragma once

#include <pybind11/pybind11.h>

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "classes/collector.h"
#include "convert/gil.h"

namespace traingraph::python {

namespace py = pybind11;

// Loads its arguments from the call, and gives the result as a new reference;
// PYBIND11_TRY_NEXT_OVERLOAD where self is of another class.
using Body = py::handle (*)(py::detail::function_call& call);

// A signature: "%" in the text stands for the next of the types, as pybind11's casters name them.
struct TypeNames {
  std::string text;
  std::vector<const std::type_info*> types;

  // `types` ends with null.
  void append(const char* before, const char* name, const std::type_info* const* named,
              const char* after);
};

template <typename T>
void append_type(TypeNames& names, const char* before, const char* after) {
  using Caster =
      py::detail::make_caster<std::conditional_t<std::is_void_v<T>, py::detail::void_type, T>>;
  static constexpr auto name = Caster::name;
  static constexpr auto types = decltype(Caster::name)::types();
  names.append(before, name.text, types.data(), after);
}

// Of a function that reads its arguments itself, behind self if it has one.
TypeNames any_arguments(bool has_self);

// What a body is called with beside its arguments: up to two words, or a pointer to more.
class Capture {
 public:
  template <typename T>
  explicit Capture(T&& value) {
    using Held = std::decay_t<T>;
    if constexpr (fits<Held>()) {
      new (bytes_) Held(std::forward<T>(value));
    } else {
      // For the life of the process, as the function that holds it.
      new (bytes_) const Held*(new Held(std::forward<T>(value)));
    }
  }
  template <typename T>
  const T& get() const {
    if constexpr (fits<T>()) {
      return *std::launder(reinterpret_cast<const T*>(bytes_));
    } else {
      return **std::launder(reinterpret_cast<const T* const*>(bytes_));
    }
  }

 private:
  template <typename T>
  static constexpr bool fits() {
    return sizeof(T) <= sizeof(bytes_) && std::is_trivially_copyable_v<T>;
  }
  alignas(void*) std::byte bytes_[2 * sizeof(void*)] = {};
};

// What a function record of pybind11's has room for.
struct CapturedBody {
  Capture capture;
  Body body;
};
static_assert(sizeof(CapturedBody) == sizeof(py::detail::function_record::data));

// Of the function that is called.
inline const CapturedBody& captured_body(const py::detail::function_call& call) {
  return *reinterpret_cast<const CapturedBody*>(call.func.data);
}
inline const Capture& captured(const py::detail::function_call& call) {
  return captured_body(call).capture;
}

// Of every class: its objects are known to the collector, and no object becomes one of it.
py::custom_type_setup set_up(VisitInstance visit);

// Where a constructor or __setstate__ puts what it makes.
py::detail::value_and_holder place_of(const py::detail::function_call& call);

struct Function {
  Body body;
  Capture capture;
  TypeNames signature;  // what the docstring says of arguments and result
  std::size_t arguments;
  py::handle cls;
  const char* name;
  const char* doc = nullptr;
  // After the arguments come all others, as a tuple and a dictionary.
  bool takes_any = false;
  // Python itself calls it, with as many arguments as it takes.
  bool is_property = false;
};
py::object make_function(const Function& function);
// A property, read-only where `set` is null.
void add_property(py::handle cls, const char* name, const py::object& get, const py::object& set,
                  const char* doc);

template <typename Self>
Self* load_self(py::detail::function_call& call) {
  py::detail::make_caster<Self> caster;
  if (!caster.load(call.args[0], /*convert=*/false)) return nullptr;
  return &py::detail::cast_op<Self&>(caster);
}

template <typename Result>
py::handle give(Result&& result, py::return_value_policy policy, py::handle parent) {
  return py::detail::make_caster<Result>::cast(
      std::forward<Result>(result),
      py::detail::return_value_policy_override<Result>::policy(policy), parent);
}

// The value of a property, which lives as long as its owner.
template <typename Self, typename Get>
py::handle get_body(py::detail::function_call& call) {
  Self* const self = load_self<Self>(call);
  if (self == nullptr) return PYBIND11_TRY_NEXT_OVERLOAD;
  return give<std::invoke_result_t<const Get&, Self&>>(
      std::invoke(captured(call).get<Get>(), *self), py::return_value_policy::reference_internal,
      call.parent);
}

template <typename Call, typename... Arguments>
py::handle give_result(py::detail::function_call& call, const Call& called,
                       Arguments&&... arguments) {
  using Result = std::invoke_result_t<const Call&, Arguments...>;
  if constexpr (std::is_void_v<Result>) {
    std::invoke(called, std::forward<Arguments>(arguments)...);
    return py::none().release();
  } else {
    return give<Result>(std::invoke(called, std::forward<Arguments>(arguments)...),
                        py::return_value_policy::automatic, call.parent);
  }
}

// What a method without arguments is called with: the object, or its wrapper.
template <typename Self, typename Call>
using Called = std::conditional_t<std::invocable<const Call&, Self&>, Self&, const py::object&>;

template <typename Self, typename Call>
py::handle call_body(py::detail::function_call& call) {
  Self* const self = load_self<Self>(call);
  if (self == nullptr) return PYBIND11_TRY_NEXT_OVERLOAD;
  const Call& called = captured(call).get<Call>();
  if constexpr (std::invocable<const Call&, Self&>) {
    return give_result(call, called, *self);
  } else {
    return give_result(call, called, py::reinterpret_borrow<py::object>(call.args[0]));
  }
}

// The name of an object's class.
std::string class_of(py::handle object);

// TypeError that says which property takes what; by the function's signature, or as `expected`
// says.
[[noreturn]] void refuse_value(const py::detail::function_call& call);
[[noreturn]] void refuse_value(const py::detail::function_call& call, const std::string& expected);

template <typename Self, typename Value, typename Set>
py::handle set_body(py::detail::function_call& call) {
  Self* const self = load_self<Self>(call);
  if (self == nullptr) return PYBIND11_TRY_NEXT_OVERLOAD;
  py::detail::make_caster<Value> value;
  // Bytes would be taken for a text, whatever they are.
  const bool is_text = std::is_same_v<std::decay_t<Value>, std::string>;
  if ((is_text && !PyUnicode_Check(call.args[1].ptr())) ||
      !value.load(call.args[1], /*convert=*/true)) {
    refuse_value(call);
  }
  std::invoke(captured(call).get<Set>(), *self, py::detail::cast_op<Value>(std::move(value)));
  return py::none().release();
}

// The last argument of a setter.
template <typename F>
struct SetterOf : SetterOf<decltype(&F::operator())> {};
template <typename R, typename C, typename V>
struct SetterOf<R (C::*)(V)> {
  using Value = V;
};
template <typename R, typename C, typename S, typename V>
struct SetterOf<R (C::*)(S, V) const> {
  using Value = V;
};
template <typename R, typename S, typename V>
struct SetterOf<R (*)(S, V)> {
  using Value = V;
};

template <typename T, typename... Options>
class BoundClass : public py::class_<T, Options...> {
 public:
  using Bound = py::class_<T, Options...>;

  using Bound::Bound;
  // A document is no array: one instance for all lengths.
  template <typename... Extra>
  BoundClass(py::handle scope, const char* name, const char* doc, const Extra&... extra)
      : Bound(scope, name, set_up(visit_instance<T, typename Bound::holder_type>()), doc,
              extra...) {
    // Nobody here reads the objects of other modules, and it speaks in pybind11's words.
    py::delattr(*this, "_pybind11_conduit_v1_");
  }

  // A method without arguments; classes/signature.h defines all others. What pybind11 defines
  // would be refused in its own words.
  template <typename Call>
  BoundClass& def(const char* name, Call call, const char* doc = nullptr) {
    this->attr(name) = make_function(
        {call_body<T, Call>, Capture(call), signature_of<Call>(), 1, *this, name, doc});
    return *this;
  }
  template <typename... Values>
  void def_static(Values...) = delete;
  // `signature` stands for that of the getter's type: "profile(self) -> Profile | None".
  template <typename Get>
  BoundClass& def_property_readonly(const char* name, Get get, const char* doc = nullptr,
                                    const char* signature = nullptr) {
    add_property(*this, name, getter(name, get, signature), {}, doc);
    return *this;
  }
  template <typename Get, typename Set>
  BoundClass& def_property(const char* name, Get get, Set set, const char* doc = nullptr) {
    using Value = typename SetterOf<Set>::Value;
    TypeNames names;
    append_type<T>(names, "({", "}, ");
    append_type<Value>(names, "{", "}) -> None");
    add_property(*this, name, getter(name, get),
                 make_function({set_body<T, Value, Set>, Capture(set), names, 2, *this, name,
                                nullptr, false, true}),
                 doc);
    return *this;
  }

 private:
  template <typename Call>
  static TypeNames signature_of() {
    TypeNames names;
    append_type<T>(names, "({", "}) -> ");
    append_type<std::invoke_result_t<const Call&, Called<T, Call>>>(names, "", "");
    return names;
  }
  template <typename Get>
  py::object getter(const char* name, Get get, const char* doc = nullptr) {
    return make_function(
        {get_body<T, Get>, Capture(get), signature_of<Get>(), 1, *this, name, doc, false, true});
  }
};

}  // namespace traingraph::python
