// Signature and Arguments, which match a Python call to one of several forms, and the def_
// templates that bind initialisers, factories, methods and functions with them.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "classes/bound_class.h"
#include "convert/convert.h"
#include "convert/gil.h"
#include "convert/names.h"

namespace traingraph::python {

// One argument of a form, parsed from "biases: MLCTensor | None = None".
struct Parameter {
  std::string name;
  std::string annotation;
  std::string default_text;  // empty: required
  PyObject* key = nullptr;   // the name, interned and never freed
  bool required() const { return default_text.empty(); }
};

// Objects of the library.
template <typename T>
constexpr bool kIsHandle = false;
template <typename T>
constexpr bool kIsHandle<std::shared_ptr<T>> = true;

// What arguments of a member function come from: a list, an object that the caller holds, or a
// value.
template <typename T>
constexpr bool kIsList = false;
template <typename T>
constexpr bool kIsList<std::vector<T>> = !std::is_same_v<std::vector<T>, Shape>;
template <typename Argument>
constexpr bool kIsHeld =
    std::is_lvalue_reference_v<Argument> && !std::is_const_v<std::remove_reference_t<Argument>>;

class Signature;

// The arguments of one call that some form takes.
class Arguments {
 public:
  Arguments(const Signature& signature, std::size_t form, py::dict given)
      : signature_(&signature), form_(form), given_(std::move(given)) {}

  // Which of the forms it is.
  std::size_t form() const { return form_; }
  bool given(std::string_view name) const { return found(name) != nullptr; }
  // What the caller gave, else the form's default; None where the form has no such argument.
  py::object operator[](std::string_view name) const;

  template <typename T>
  T get(std::string_view name) const {
    const py::object value = (*this)[name];
    if constexpr (kIsHandle<T>) {
      // Without the words of an error.
      if (py::detail::make_caster<T> caster; !value.is_none() && caster.load(value, true)) {
        T made = py::detail::cast_op<T>(std::move(caster));
        if (!has_none(made)) return made;
      }
    }
    return convert<T>(value, where(name));
  }
  // A member of an enumeration, of which these alone are accepted.
  template <BoundEnum E>
  E get_of(std::string_view name, const std::string& accepted) const {
    check_accepted(EnumName<E>::text, (*this)[name], where(name), accepted);
    return get<E>(name);
  }
  // Nothing for None.
  template <typename T>
  std::optional<T> optional(std::string_view name) const {
    const py::object value = (*this)[name];
    return value.is_none() ? std::nullopt : std::optional<T>(convert<T>(value, where(name)));
  }
  // A null handle for None.
  template <typename Pointer>
  Pointer nullable(std::string_view name) const {
    return optional<Pointer>(name).value_or(nullptr);
  }
  // The form's k-th as a member function takes it, or as the pointer to what it takes.
  template <typename Argument>
  auto at(std::size_t k) const {
    using T = std::remove_cvref_t<Argument>;
    const std::string& name = name_of(k);
    if constexpr (kIsHeld<Argument>) {
      return get<std::shared_ptr<T>>(name);
    } else if constexpr (std::is_same_v<T, NamedTensors>) {
      return named_tensors((*this)[name], where(name));
    } else if constexpr (kIsList<T>) {
      return convert_list<typename T::value_type>((*this)[name], where(name));
    } else {
      return get<T>(name);
    }
  }
  Where where(std::string_view name) const;
  // By name, as the caller gave them.
  const py::dict& all() const { return given_; }

 private:
  const std::string& name_of(std::size_t k) const;
  // What the caller gave; null where nothing was given.
  PyObject* found(std::string_view name) const;

  const Signature* signature_;
  std::size_t form_;
  py::dict given_;
};

// Apple's spellings of one constructor, factory or method as data: one line per initialiser. It
// matches calls and writes the first lines of the docstring, from which the stubs are generated.
// "Any", "ArrayLike", "Sequence" and the like are written without their modules.
class Signature {
 public:
  enum class Kind { kConstructor, kStatic, kMethod, kPairMethod, kKeywordMethod, kFunction };

  Signature(Kind kind, std::string owner, std::string name, std::string returns,
            const std::vector<std::string>& forms);

  // kStatic and kMethod take their first argument by position too, kPairMethod its first two,
  // kFunction any number, the others keywords only; none takes those after a "*" of its form.
  // Raises TypeError that names the arguments given, the nearest form and what is missing.
  Arguments match(const py::args& positional, const py::kwargs& keywords) const;
  // `text` below the signature line of each form.
  std::string docstring(std::string_view text) const;
  bool has_self() const { return kind_ != Kind::kStatic && kind_ != Kind::kFunction; }

 private:
  friend class Arguments;
  using Form = std::vector<Parameter>;

  Arguments match_function(const py::args& positional, const py::kwargs& keywords) const;
  static bool fits(const Form& form, const py::dict& given);
  [[noreturn]] void refuse(const py::dict& given) const;
  const Form& meant_by(const py::args& positional) const;
  std::string line(const Form& form) const;
  std::string shown(const Form& form) const;
  static std::string names_of(const Form& form, std::size_t positional);
  Form merged() const;
  std::string text_signature() const;
  std::size_t positional_count(const Form& form) const;
  std::size_t number_of(const Form& form) const {
    return static_cast<std::size_t>(&form - forms_.data());
  }
  // "MLCTensor" for a constructor, else "MLCGraph.node"; of a function its name.
  std::string subject() const;

  Kind kind_;
  std::string owner_;
  std::string name_;
  std::string returns_;
  std::vector<Form> forms_;
  std::vector<std::string> own_returns_;  // of each form that ends with " -> …"
  std::vector<std::size_t> before_star_;  // of each form
};

// What a constructor does with its arguments beside making the object: nothing, for most.
template <typename T>
struct AfterMaking {
  template <typename Made>
  static void keep(Made&, const Arguments&) {}
};

// Called with the arguments of one form; gives a new reference.
using FormBody = py::handle (*)(py::detail::function_call& call, const Arguments& arguments,
                                const Capture& capture);

// Adds a function that takes the forms; `self` names its class. It keeps its signature for the life
// of the process, as Python keeps the function.
void define(py::handle cls, Signature::Kind kind, const char* name, const char* returns,
            const std::vector<std::string>& forms, const char* doc, FormBody body,
            const Capture& capture);

template <typename Class, typename Make>
void def_init(Class& cls, const std::vector<std::string>& forms, const char* doc, Make make) {
  const FormBody body = [](py::detail::function_call& call, const Arguments& arguments,
                           const Capture& capture) -> py::handle {
    auto made = capture.get<Make>()(arguments);
    ++objects_made;  // of a class that Python derived as well
    AfterMaking<typename Class::type>::keep(made, arguments);
    // pybind11 gives a constructor the place of the object that it makes.
    auto& place = *reinterpret_cast<py::detail::value_and_holder*>(call.args[0].ptr());
    py::detail::initimpl::construct<typename Class::Bound>(place, std::move(made), false);
    return py::none().release();
  };
  define(cls, Signature::Kind::kConstructor, "__init__", "None", forms, doc, body, Capture(make));
}

// A static method, or a function of the module.
template <typename Scope, typename Make>
void def_factory(Scope& scope, const char* name, const char* returns,
                 const std::vector<std::string>& forms, const char* doc, Make make) {
  const FormBody body = [](py::detail::function_call& call, const Arguments& arguments,
                           const Capture& capture) {
    return give_result(call, capture.get<Make>(), arguments);
  };
  constexpr bool is_module = std::is_same_v<Scope, py::module_>;
  define(scope, is_module ? Signature::Kind::kFunction : Signature::Kind::kStatic, name, returns,
         forms, doc, body, Capture(make));
}
template <typename Call>
void def_function(py::module_& module, const char* name, const char* returns,
                  const std::vector<std::string>& forms, const char* doc, Call call) {
  def_factory(module, name, returns, forms, doc, call);
}
// One without arguments.
template <typename Scope, typename Call>
void def_getter(Scope& scope, const char* name, const char* returns, const char* doc, Call call) {
  def_factory(scope, name, returns, {""}, doc, [call](const Arguments&) { return call(); });
}

template <typename Argument, typename T>
decltype(auto) passed(T& value) {
  if constexpr (kIsHeld<Argument>) {
    return (*value);
  } else {
    return std::move(value);
  }
}

template <typename Class, typename Call>
void def_method(Class& cls, const char* name, const char* returns,
                const std::vector<std::string>& forms, const char* doc, Call call,
                Signature::Kind kind = Signature::Kind::kMethod) {
  const FormBody body = [](py::detail::function_call& called, const Arguments& arguments,
                           const Capture& capture) -> py::handle {
    auto* const self = load_self<typename Class::type>(called);
    if (self == nullptr) return PYBIND11_TRY_NEXT_OVERLOAD;
    return give_result(called, capture.get<Call>(), *self, arguments);
  };
  define(cls, kind, name, returns, forms, doc, body, Capture(call));
}

enum class Gil { kHeld, kReleased };

template <typename Result, typename... Values, typename Class, typename Call>
void def_member(Class& cls, const char* name, const std::string& returns, const std::string& form,
                const char* doc, Call call, Gil gil) {
  using Self = typename Class::type;
  def_method(cls, name, returns.c_str(), {form}, doc,
             [call, gil, yes = returns == "bool"](Self& self, const Arguments& arguments) {
               const auto called = [&]<std::size_t... k>(std::index_sequence<k...>) -> Result {
                 std::tuple given{arguments.at<Values>(k)...};
                 std::optional<ReleasedGil> released;
                 if (gil == Gil::kReleased) released.emplace();
                 return (self.*call)(passed<Values>(std::get<k>(given))...);
               };
               constexpr auto all = std::index_sequence_for<Values...>();
               if constexpr (std::is_void_v<Result>) {
                 called(all);
                 return yes ? py::object(py::bool_(true)) : py::none();
               } else {
                 return called(all);
               }
             });
}

// What `call`, a member function, does with the arguments of the one form, in their order; one that
// returns nothing returns True where "bool" is promised, as Apple's do.
template <typename Class, typename Result, typename Owner, typename... Values>
void def_call(Class& cls, const char* name, const std::string& returns, const std::string& form,
              const char* doc, Result (Owner::*call)(Values...), Gil gil = Gil::kHeld) {
  def_member<Result, Values...>(cls, name, returns, form, doc, call, gil);
}
template <typename Class, typename Result, typename Owner, typename... Values>
void def_call(Class& cls, const char* name, const std::string& returns, const std::string& form,
              const char* doc, Result (Owner::*call)(Values...) const, Gil gil = Gil::kHeld) {
  def_member<Result, Values...>(cls, name, returns, form, doc, call, gil);
}

// copy(), copy.copy and copy.deepcopy through one function.
template <typename Class, typename Copy>
void def_copy(Class& cls, Copy copy) {
  using Self = typename Class::type;
  cls.def("copy", copy, "An independent object with the same values.");
  cls.def("__copy__", copy, "An independent object with the same values.");
  def_method(cls, "__deepcopy__", py::cast<std::string>(cls.attr("__name__")).c_str(),
             {"memo: Any"}, "An independent object with the same values.",
             [copy](const Self& self, const Arguments&) { return copy(self); });
}

// Two of the class are equal where `equal` says so.
template <typename Class, typename Equal>
void def_equal(Class& cls, Equal equal) {
  using Self = typename Class::type;
  def_method(cls, "__eq__", "bool", {"other: object"}, "",
             [equal](const Self& self, const Arguments& arguments) {
               const py::object other = arguments["other"];
               return py::isinstance<Self>(other) && equal(self, py::cast<const Self&>(other));
             });
}

// Graphs, layers and tensors are equal when they are one object of the core, whatever Python
// object stands for it.
template <typename Class>
void def_identity(Class& cls) {
  using Self = typename Class::type;
  cls.def("__hash__",
          [](const Self& self) { return reinterpret_cast<std::uintptr_t>(&self) >> 4; });
  def_equal(cls, [](const Self& one, const Self& other) { return &one == &other; });
}

}  // namespace traingraph::python
