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

// One argument of a form.
struct Parameter {
  std::string name;
  std::string annotation;
  std::string default_text;           // empty: required
  PyObject* key = nullptr;            // the name, interned and never freed
  mutable PyObject* value = nullptr;  // the default, once a call has needed it; never freed
  bool required() const { return default_text.empty(); }
};
struct CallForm {
  std::vector<Parameter> parameters;
  std::size_t before_star;  // so many may be given by position
  std::string returns;      // empty: as the other forms
};
// The one of this name; null where the form has none.
const Parameter* parameter_of(const std::vector<Parameter>& form, std::string_view name);
// Behind ", " where it is not the first.
void append_item(std::string& list, const std::string& item);
// Of "weights: MLCTensor, *, biases: MLCTensor | None = None -> MLCLayer".
std::vector<CallForm> parsed(const std::vector<std::string>& forms);
// "Sequence[int]" with the module that it is of.
std::string with_modules(std::string text);

// Objects of the library.
template <typename T>
constexpr bool kIsHandle = false;
template <typename T>
constexpr bool kIsHandle<std::shared_ptr<T>> = true;

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
  Where where(std::string_view name) const;
  // The k-th argument of the form; null where the caller left it out.
  PyObject* at(std::size_t k) const;
  // By name, as the caller gave them.
  const py::dict& all() const { return given_; }

 private:
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
            std::vector<CallForm> forms);

  // kStatic and kMethod take their first argument by position too, kPairMethod its first two,
  // kFunction any number, the others keywords only; none takes those after a "*" of its form.
  // Raises TypeError that names the arguments given, the nearest form and what is missing.
  Arguments match(const py::args& positional, const py::kwargs& keywords) const;
  // `text` below the signature line of each form.
  std::string docstring(std::string_view text) const;
  bool has_self() const { return kind_ != Kind::kStatic && kind_ != Kind::kFunction; }

 private:
  friend class Arguments;

  Arguments match_function(const py::args& positional, const py::kwargs& keywords) const;
  std::string missing(const py::args& positional, const py::kwargs& keywords) const;
  static bool fits(const CallForm& form, const py::dict& given);
  [[noreturn]] void refuse(const py::dict& given) const;
  [[noreturn]] void refuse_function(const py::args& positional, const py::kwargs& keywords) const;
  const CallForm& meant_by(const py::args& positional) const;
  std::string line(const CallForm& form) const;
  std::string shown(const CallForm& form) const;
  static std::string names_of(const std::vector<Parameter>& list, std::size_t positional);
  std::vector<Parameter> merged() const;
  std::string text_signature() const;
  std::size_t positional_count(const CallForm& form) const;
  // "MLCTensor" for a constructor, else "MLCGraph.node"; of a function its name.
  std::string subject() const;

  Kind kind_;
  std::string owner_;
  std::string name_;
  std::string returns_;
  std::vector<CallForm> forms_;
};

// Called with the arguments of one form; gives a new reference.
using FormBody = py::handle (*)(py::detail::function_call& call, const Arguments& arguments,
                                const Capture& capture);

// Adds a function that takes the forms; `self` names its class. It keeps its signature for the life
// of the process, as Python keeps the function.
void define(py::handle cls, Signature::Kind kind, const char* name, const char* returns,
            std::vector<CallForm> forms, const char* doc, FormBody body, const Capture& capture);

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
         parsed(forms), doc, body, Capture(make));
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
  define(cls, kind, name, returns, parsed(forms), doc, body, Capture(call));
}

}  // namespace traingraph::python
