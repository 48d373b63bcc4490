// Initialisers and factories of described classes, and the arguments of their forms.
#include <algorithm>

#include "classes/described_members.h"
#include "classes/python_types.h"

namespace traingraph::python {
namespace {

// An initialiser or a factory.
struct Maker {
  const ClassDescription& description;
  const std::vector<Form>& forms;
  void (*before_making)(const Given& given);
  void (*after_making)(const std::any& made, const Arguments& arguments);
};

std::any load_argument(const Argument& argument, py::handle value, const Where& where) {
  if (!argument.accepted.empty()) {
    check_accepted(given_annotation(argument.type).c_str(), value, where, argument.accepted);
  }
  return load_value(argument.type, value, where);
}

std::any make(const Maker& maker, const Arguments& arguments) {
  const Given given = given_of(maker.forms, arguments);
  if (maker.before_making != nullptr) maker.before_making(given);
  return maker.forms[arguments.form()].make(given);
}

}  // namespace

std::vector<CallForm> forms_of(const std::vector<Form>& forms) {
  std::vector<CallForm> result;
  for (const Form& form : forms) {
    std::vector<Parameter> parameters;
    for (const Argument& argument : form.arguments) {
      const std::optional<std::any>& value = argument.value_if_absent;
      parameters.push_back({argument.name, taken_annotation(argument.type),
                            value ? text_of(argument.type, *value) : ""});
    }
    result.push_back({std::move(parameters), form.arguments.size(), ""});
  }
  return result;
}

std::string range_text(const Range* range) {
  return range == nullptr ? "" : std::string(" Range: ") + range->text + ".";
}

std::string document_of(const std::string& text, const std::vector<Form>& forms) {
  std::string document = text;
  std::vector<std::string> known;
  for (const Form& form : forms) {
    for (const Argument& argument : form.arguments) {
      if (std::ranges::find(known, argument.name) != known.end()) continue;
      document += (known.empty() ? "\n\nArguments:\n* " : "\n* ") + argument.name + ": " +
                  argument.text + range_text(argument.range);
      known.push_back(argument.name);
    }
  }
  return document;
}

Given given_of(const std::vector<Form>& forms, const Arguments& arguments) {
  const std::vector<Argument>& taken = forms[arguments.form()].arguments;
  Given given;
  for (std::size_t k = 0; k < taken.size(); ++k) {
    PyObject* const value = arguments.at(k);
    const std::string& name = taken[k].name;
    given.add(name, value != nullptr ? load_argument(taken[k], value, arguments.where(name))
                                     : *taken[k].value_if_absent);
  }
  return given;
}

void add_constructor(py::handle cls, const ClassDescription& description,
                     const Ownership& ownership) {
  const FormBody body = [](py::detail::function_call& call, const Arguments& arguments,
                           const Capture& capture) -> py::handle {
    const Maker& maker = *capture.get<const Maker*>();
    const std::any made = make(maker, arguments);
    if (maker.after_making != nullptr) maker.after_making(made, arguments);
    place_made(call, maker.description, made);
    return py::none().release();
  };
  define(cls, Signature::Kind::kConstructor, "__init__", "None", forms_of(description.forms),
         document_of(description.text, description.forms).c_str(), body,
         Capture(static_cast<const Maker*>(new Maker{
             description, description.forms, ownership.before_making, ownership.after_making})));
}

void add_factory(py::handle cls, const ClassDescription& description, const Factory& factory) {
  const FormBody body = [](py::detail::function_call&, const Arguments& arguments,
                           const Capture& capture) -> py::handle {
    const Maker& maker = *capture.get<const Maker*>();
    return cast_made(maker.description.name, make(maker, arguments)).release();
  };
  define(
      cls, Signature::Kind::kStatic, factory.name.c_str(), description.name.c_str(),
      forms_of(factory.forms), document_of(factory.text, factory.forms).c_str(), body,
      Capture(static_cast<const Maker*>(new Maker{description, factory.forms, nullptr, nullptr})));
}

}  // namespace traingraph::python
