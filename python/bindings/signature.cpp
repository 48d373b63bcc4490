#include "signature.h"

#include <pybind11/eval.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <limits>

namespace traingraph::python {
namespace {

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) {
    return {};
  }
  return std::string(text.substr(first, text.find_last_not_of(' ') - first + 1));
}

// Forms name these without their modules.
constexpr std::pair<const char*, const char*> kModules[] = {{"Any", "typing."},
                                                            {"ArrayLike", "numpy.typing."},
                                                            {"Buffer", "typing_extensions."},
                                                            {"Callable", "collections.abc."},
                                                            {"DTypeLike", "numpy.typing."},
                                                            {"Iterable", "collections.abc."},
                                                            {"Mapping", "collections.abc."},
                                                            {"Sequence", "collections.abc."}};

std::string with_modules(std::string text) {
  const auto is_part = [](char c) { return std::isalnum(c) != 0 || c == '_' || c == '.'; };
  for (const auto& [name, module] : kModules) {
    const std::size_t size = std::strlen(name);
    for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += size) {
      if (at > 0 && is_part(text[at - 1])) continue;
      if (at + size < text.size() && is_part(text[at + size])) continue;
      text.insert(at, module);
      at += std::strlen(module);
    }
  }
  return text;
}

// Splits at commas outside of brackets.
std::vector<Parameter> parse_form(const std::string& text) {
  const std::string form = with_modules(text);
  std::vector<Parameter> parameters;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= form.size(); ++i) {
    const char c = i < form.size() ? form[i] : ',';
    depth += c == '[' || c == '(' ? 1 : c == ']' || c == ')' ? -1 : 0;
    if (c != ',' || (depth != 0 && i < form.size())) {
      continue;
    }
    const std::string part = form.substr(begin, i - begin);
    begin = i + 1;
    if (trimmed(part).empty()) {
      continue;
    }
    const auto colon = part.find(':');
    const auto equals = part.find(" = ");
    parameters.push_back({trimmed(part.substr(0, colon)),
                          trimmed(part.substr(colon + 1, equals - colon - 1)),
                          equals == std::string::npos ? "" : trimmed(part.substr(equals + 3))});
  }
  return parameters;
}

const Parameter* find(const std::vector<Parameter>& form, std::string_view name) {
  const auto found = std::ranges::find(form, name, &Parameter::name);
  return found == form.end() ? nullptr : &*found;
}

void append(std::string& list, const std::string& item) {
  list += list.empty() ? item : ", " + item;
}

// What a form lacks and what it has no place for.
struct Distance {
  std::string missing;
  std::string surplus;
  int count = 0;
};

Distance distance(const std::vector<Parameter>& form, const py::dict& given) {
  Distance result;
  for (const Parameter& parameter : form) {
    if (parameter.required() && !given.contains(parameter.name)) {
      append(result.missing, parameter.name);
      ++result.count;
    }
  }
  for (const auto& item : given) {
    const std::string name = printable(item.first);
    if (find(form, name) == nullptr) {
      append(result.surplus, name);
      ++result.count;
    }
  }
  return result;
}

}  // namespace

PyObject* Arguments::found(std::string_view name) const {
  for (const Parameter& parameter : signature_->forms_[form_]) {
    if (parameter.name == name) return PyDict_GetItemWithError(given_.ptr(), parameter.key);
  }
  return nullptr;
}

const std::string& Arguments::name_of(std::size_t k) const {
  return signature_->forms_[form_].at(k).name;
}

py::object Arguments::operator[](std::string_view name) const {
  if (PyObject* value = found(name)) return py::reinterpret_borrow<py::object>(value);
  const Parameter* const parameter = find(signature_->forms_[form_], name);
  if (parameter == nullptr || parameter->required() || parameter->default_text == "None") {
    return py::none();
  }
  return py::eval(parameter->default_text,
                  py::module_::import("traingraph._core").attr("__dict__"));
}

Where Arguments::where(std::string_view name) const {
  const Parameter* parameter = find(signature_->forms_[form_], name);
  return {signature_->subject(), std::string(name),
          parameter != nullptr ? parameter->annotation : ""};
}

namespace {

// What the function of a signature is called with.
struct Forms {
  Signature signature;
  FormBody body;
  Capture capture;
  bool has_self;
};

py::handle call_forms(const Forms& forms, py::detail::function_call& call) {
  const auto& given = call.args;
  const std::size_t first = forms.has_self ? 1 : 0;
  return forms.body(call,
                    forms.signature.match(py::reinterpret_borrow<py::args>(given[first]),
                                          py::reinterpret_borrow<py::kwargs>(given[first + 1])),
                    forms.capture);
}

}  // namespace

void define(py::handle cls, Signature::Kind kind, const char* name, const char* returns,
            const std::vector<std::string>& forms, const char* doc, FormBody body,
            const Capture& capture) {
  using Kind = Signature::Kind;
  const auto* const kept =
      new Forms{{kind, py::cast<std::string>(cls.attr("__name__")), name, returns, forms},
                body,
                capture,
                kind != Kind::kStatic};
  py::options options;
  options.disable_function_signatures();
  TypeNames names{kept->has_self ? "({object}, " : "(", {}};
  append_type<py::args>(names, "{", "}, ");
  append_type<py::kwargs>(names, "{", "}) -> object");
  const std::string text = kept->signature.docstring(doc);
  const py::object function = make_function(
      {[](py::detail::function_call& call) {
         return call_forms(*captured(call).get<const Forms*>(), call);
       },
       Capture(kept), names, kept->has_self ? std::size_t{1} : 0, cls, name, text.c_str(), true});
  cls.attr(name) = kept->has_self ? function : py::staticmethod(function);
}

Signature::Signature(Kind kind, std::string owner, std::string name, std::string returns,
                     const std::vector<std::string>& forms)
    : kind_(kind),
      owner_(std::move(owner)),
      name_(std::move(name)),
      returns_(with_modules(std::move(returns))) {
  std::ranges::transform(forms, std::back_inserter(forms_), parse_form);
  for (Form& form : forms_) {
    for (Parameter& parameter : form) {
      parameter.key = PyUnicode_InternFromString(parameter.name.c_str());
    }
  }
}

bool Signature::fits(const Form& form, const py::dict& given) {
  std::size_t known = 0;
  for (const Parameter& parameter : form) {
    if (PyDict_Contains(given.ptr(), parameter.key) == 1) {
      ++known;
    } else if (parameter.required()) {
      return false;
    }
  }
  return known == given.size();
}

Arguments Signature::match(const py::args& positional, const py::kwargs& keywords) const {
  const std::size_t allowed = positional_count();
  const bool has_first = !forms_.front().empty();
  if (positional.size() > (has_first ? allowed : 0)) {
    throw py::type_error("[" + subject() + "] expected " +
                         (allowed == 0   ? "keywords only"
                          : allowed == 1 ? "keywords after the first argument"
                                         : "keywords after the second argument") +
                         " but got " + std::to_string(positional.size()) +
                         " positional arguments; write " + line(forms_.front()));
  }
  py::dict given(keywords);
  if (!positional.empty()) given = py::reinterpret_steal<py::dict>(PyDict_Copy(given.ptr()));
  for (std::size_t i = 0; i < positional.size(); ++i) {
    // Forms of one name begin with the same arguments, or are told apart by the other ones.
    const Parameter& parameter = forms_.front()[i];
    if (PyDict_Contains(given.ptr(), parameter.key) == 1) {
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

void Signature::refuse(const py::dict& given) const {
  const Form* nearest = nullptr;
  Distance best;
  best.count = std::numeric_limits<int>::max();
  for (const Form& form : forms_) {
    Distance candidate = distance(form, given);
    if (candidate.count < best.count) {
      best = std::move(candidate);
      nearest = &form;
    }
  }
  std::string names;
  for (const auto& item : given) {
    append(names, printable(item.first));
  }
  std::string text =
      "[" + subject() + "] no form takes (" + names + "); the nearest is " + line(*nearest);
  if (!best.missing.empty()) {
    text += "; missing: " + best.missing;
  }
  if (!best.surplus.empty()) {
    text += "; not in it: " + best.surplus;
  }
  for (const Form& form : forms_) {
    for (const auto& item : given) {
      // A form may take a list of what was given alone.
      const std::string name = printable(item.first);
      if (find(form, name) != nullptr || find(form, name + "s") == nullptr) continue;
      const auto listed = py::reinterpret_steal<py::dict>(PyDict_Copy(given.ptr()));
      listed.attr("pop")(item.first);
      listed[py::str(name + "s")] = item.second;
      if (fits(form, listed)) text += "; write " + name + "s=[" + name + "]: " + line(form);
    }
  }
  throw py::type_error(text);
}

std::string Signature::line(const Form& form) const {
  std::string list;
  if (kind_ != Kind::kStatic) {
    list = "self";
  }
  for (std::size_t i = 0; i < form.size(); ++i) {
    if (i == positional_count()) {
      append(list, "*");
    }
    const Parameter& parameter = form[i];
    append(list, parameter.name + ": " + parameter.annotation +
                     (parameter.required() ? "" : " = " + parameter.default_text));
  }
  return name_ + "(" + list + ") -> " + returns_;
}

std::string Signature::subject() const {
  return kind_ == Kind::kConstructor ? owner_ : owner_ + "." + name_;
}

std::string Signature::docstring(std::string_view text) const {
  if (forms_.size() == 1) {
    return line(forms_.front()) + "\n\n" + std::string(text) + "\n";
  }
  std::string result = name_ + "(*args, **kwargs)\nOverloaded function.\n";
  for (std::size_t i = 0; i < forms_.size(); ++i) {
    result += "\n" + std::to_string(i + 1) + ". " + line(forms_[i]) + "\n";
  }
  return result + "\n" + std::string(text) + "\n";
}

}  // namespace traingraph::python
