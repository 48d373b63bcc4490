// Matches the arguments of a call to the forms of a signature, and writes docstrings.
#include "classes/signature.h"

#include <pybind11/eval.h>

#include <algorithm>

namespace traingraph::python {

const Parameter* parameter_of(const std::vector<Parameter>& form, std::string_view name) {
  const auto found = std::ranges::find(form, name, &Parameter::name);
  return found == form.end() ? nullptr : &*found;
}

void append_item(std::string& list, const std::string& item) {
  list += list.empty() ? item : ", " + item;
}

PyObject* Arguments::found(std::string_view name) const {
  const std::vector<Parameter>& parameters = signature_->forms_[form_].parameters;
  const Parameter* const parameter = parameter_of(parameters, name);
  return parameter == nullptr ? nullptr
                              : at(static_cast<std::size_t>(parameter - parameters.data()));
}

PyObject* Arguments::at(std::size_t k) const {
  PyObject* const key = signature_->forms_[form_].parameters[k].key;
  PyObject* const value = PyDict_GetItemWithError(given_.ptr(), key);
  if (value == nullptr && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return value;
}

py::object Arguments::operator[](std::string_view name) const {
  if (PyObject* value = found(name)) return py::reinterpret_borrow<py::object>(value);
  const Parameter* const parameter = parameter_of(signature_->forms_[form_].parameters, name);
  if (parameter == nullptr || parameter->required()) return py::none();
  if (parameter->value == nullptr) {
    const py::object names = py::module_::import("traingraph._core").attr("__dict__");
    parameter->value = py::eval(parameter->default_text, names).release().ptr();
  }
  return py::reinterpret_borrow<py::object>(parameter->value);
}

Where Arguments::where(std::string_view name) const {
  const Parameter* parameter = parameter_of(signature_->forms_[form_].parameters, name);
  return {signature_->subject(), std::string(name),
          parameter != nullptr ? parameter->annotation : ""};
}

namespace {

// What the function of a signature is called with.
struct Forms {
  Signature signature;
  FormBody body;
  Capture capture;
};

py::handle call_forms(const Forms& forms, py::detail::function_call& call) {
  const auto& given = call.args;
  const std::size_t first = forms.signature.has_self() ? 1 : 0;
  return forms.body(call,
                    forms.signature.match(py::reinterpret_borrow<py::args>(given[first]),
                                          py::reinterpret_borrow<py::kwargs>(given[first + 1])),
                    forms.capture);
}

}  // namespace

void define(py::handle cls, Signature::Kind kind, const char* name, const char* returns,
            std::vector<CallForm> forms, const char* doc, FormBody body, const Capture& capture) {
  using Kind = Signature::Kind;
  const auto* const kept = new Forms{
      {kind, py::cast<std::string>(cls.attr("__name__")), name, returns, std::move(forms)},
      body,
      capture};
  py::options options;
  options.disable_function_signatures();
  const bool has_self = kept->signature.has_self();
  const std::string text = kept->signature.docstring(doc);
  const py::object function =
      make_function({[](py::detail::function_call& call) {
                       return call_forms(*captured(call).get<const Forms*>(), call);
                     },
                     Capture(kept), any_arguments(has_self), has_self ? std::size_t{1} : 0, cls,
                     name, text.c_str(), true});
  cls.attr(name) = kind == Kind::kStatic ? py::staticmethod(function) : function;
}

Signature::Signature(Kind kind, std::string owner, std::string name, std::string returns,
                     std::vector<CallForm> forms)
    : kind_(kind),
      owner_(std::move(owner)),
      name_(std::move(name)),
      returns_(with_modules(std::move(returns))),
      forms_(std::move(forms)) {
  for (CallForm& form : forms_) {
    form.before_star = std::min(form.before_star, form.parameters.size());
    for (Parameter& parameter : form.parameters) {
      parameter.key = PyUnicode_InternFromString(parameter.name.c_str());
    }
  }
}

bool Signature::fits(const CallForm& form, const py::dict& given) {
  std::size_t known = 0;
  for (const Parameter& parameter : form.parameters) {
    if (given.contains(py::handle(parameter.key))) {
      ++known;
    } else if (parameter.required()) {
      return false;
    }
  }
  return known == given.size();
}

std::size_t Signature::positional_count(const CallForm& form) const {
  if (kind_ == Kind::kFunction) return form.before_star;
  const std::size_t most = kind_ == Kind::kPairMethod                         ? 2
                           : kind_ == Kind::kStatic || kind_ == Kind::kMethod ? 1
                                                                              : 0;
  return std::min(most, form.before_star);
}

// The form that has as many arguments by position, and the keywords.
Arguments Signature::match_function(const py::args& positional, const py::kwargs& keywords) const {
  for (std::size_t form = 0; form < forms_.size(); ++form) {
    if (positional.size() > positional_count(forms_[form])) continue;
    auto given = py::reinterpret_steal<py::dict>(PyDict_Copy(keywords.ptr()));
    for (std::size_t i = 0; i < positional.size(); ++i) {
      given[py::handle(forms_[form].parameters[i].key)] = positional[i];
    }
    if (given.size() == positional.size() + keywords.size() && fits(forms_[form], given)) {
      return {*this, form, std::move(given)};
    }
  }
  refuse_function(positional, keywords);
}

Arguments Signature::match(const py::args& positional, const py::kwargs& keywords) const {
  if (kind_ == Kind::kFunction) return match_function(positional, keywords);
  const std::size_t allowed = positional_count(forms_.front());
  if (positional.size() > allowed) {
    throw py::type_error("[" + subject() + "] expected " +
                         (allowed == 0   ? merged().empty() ? "no arguments" : "keywords only"
                          : allowed == 1 ? "keywords after the first argument"
                                         : "keywords after the second argument") +
                         " but got " + std::to_string(positional.size()) +
                         " positional arguments; write " + shown(meant_by(positional)));
  }
  py::dict given(keywords);
  if (!positional.empty()) given = py::reinterpret_steal<py::dict>(PyDict_Copy(given.ptr()));
  for (std::size_t i = 0; i < positional.size(); ++i) {
    // Forms of one name begin with the same arguments, or are told apart by the other ones.
    const Parameter& parameter = forms_.front().parameters[i];
    if (given.contains(py::handle(parameter.key))) {
      throw py::type_error("[" + subject() + "] got " + parameter.name + " twice");
    }
    if (PyDict_SetItem(given.ptr(), parameter.key,
                       PyTuple_GET_ITEM(positional.ptr(), static_cast<py::ssize_t>(i))) != 0) {
      throw py::error_already_set();
    }
  }
  for (std::size_t form = 0; form < forms_.size(); ++form) {
    if (fits(forms_[form], given)) {
      return {*this, form, std::move(given)};
    }
  }
  refuse(given);
}

std::string Signature::line(const CallForm& form) const {
  std::string list = has_self() ? "self" : "";
  for (std::size_t i = 0; i < form.parameters.size(); ++i) {
    if (i == positional_count(form)) append_item(list, "*");
    const Parameter& parameter = form.parameters[i];
    append_item(list, parameter.name + ": " + parameter.annotation +
                          (parameter.required() ? "" : " = " + parameter.default_text));
  }
  return name_ + "(" + list + ") -> " + (form.returns.empty() ? returns_ : form.returns);
}

// Types are in the docstring.
std::string Signature::shown(const CallForm& form) const {
  return subject() + "(" + names_of(form.parameters, positional_count(form)) + ")";
}

std::string Signature::names_of(const std::vector<Parameter>& list, std::size_t positional) {
  std::string names;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i == positional) append_item(names, "*");
    append_item(names, list[i].name + (list[i].required() ? "" : "=" + list[i].default_text));
  }
  return names;
}

// All forms as one: what each of them has to have is required there.
std::vector<Parameter> Signature::merged() const {
  std::vector<Parameter> all;
  for (const CallForm& form : forms_) {
    for (const Parameter& parameter : form.parameters) {
      if (parameter_of(all, parameter.name) != nullptr) continue;
      all.push_back(parameter);
      const auto needs = [&](const CallForm& other) {
        const Parameter* same = parameter_of(other.parameters, parameter.name);
        return same != nullptr && same->required();
      };
      if (parameter.required() && !std::ranges::all_of(forms_, needs)) {
        all.back().default_text = "None";
      }
    }
  }
  return all;
}

// For inspect.signature, which knows one form: what the others have more is taken by name.
std::string Signature::text_signature() const {
  const std::size_t positional = positional_count(forms_.front());
  std::string list =
      names_of(forms_.size() == 1 ? forms_.front().parameters : merged(), positional);
  if (has_self()) list = list.empty() ? "self" : "self, " + list;
  return name_ + "(" + list + ")\n--\n\n";
}

std::string Signature::subject() const {
  if (kind_ == Kind::kFunction) return name_;
  return kind_ == Kind::kConstructor ? owner_ : owner_ + "." + name_;
}

std::string Signature::docstring(std::string_view text) const {
  if (forms_.size() == 1) {
    return text_signature() + line(forms_.front()) + "\n\n" + std::string(text) + "\n";
  }
  std::string result = text_signature() + name_ + "(*args, **kwargs)\nOverloaded function.\n";
  for (std::size_t i = 0; i < forms_.size(); ++i) {
    result += "\n" + std::to_string(i + 1) + ". " + line(forms_[i]) + "\n";
  }
  return result + "\n" + std::string(text) + "\n";
}

}  // namespace traingraph::python
