// Copies, pickles, comparisons and texts of described classes.
#include <algorithm>

#include "classes/described_members.h"
#include "classes/python_types.h"

namespace traingraph::python {
namespace {

// The property that shows an argument: of its name, or "pooling_type" of "type".
const Property* property_of(const ClassDescription& description, const std::string& argument) {
  const Property* found = nullptr;
  for (const Property& property : description.properties) {
    if (property.name == argument) return &property;
    if (found == nullptr && property.name.ends_with("_" + argument)) found = &property;
  }
  return found;
}

// Of a value: what its longest form takes.
std::string represented(const ClassDescription& description, const void* self) {
  const Form& longest = *std::ranges::max_element(description.forms, {},
                                                  [](const Form& f) { return f.arguments.size(); });
  std::string text = "<" + description.name;
  for (const Argument& argument : longest.arguments) {
    const Property* const property = property_of(description, argument.name);
    if (property == nullptr) continue;
    text += " " + argument.name + "=" + text_of(property->type, property->get(self));
  }
  return text + ">";
}

// A path in it may be no UTF-8.
py::object readable(const std::string& text) {
  return py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

// What a function of Python's own protocols is told, and the function of the description.
template <typename Call>
void add_protocol(py::handle cls, const ClassDescription& description, const char* name,
                  const std::string& returns, const char* text, Call) {
  const Body body = [](py::detail::function_call& call) -> py::handle {
    const ClassDescription& described = *captured(call).get<const ClassDescription*>();
    void* const self = load_object(*described.type, call.args[0]);
    if (self == nullptr) return PYBIND11_TRY_NEXT_OVERLOAD;
    return py::object(Call{}(described, self, call.args[0])).release();
  };
  cls.attr(name) = function(body, Capture(&description), 1, cls, name,
                            std::string(name) + "(self) -> " + returns + "\n\n" + text);
}

void add_texts(py::handle cls, const ClassDescription& description) {
  if (description.repr != nullptr) {
    add_protocol(cls, description, "__repr__", "str", "What it is.",
                 [](const ClassDescription& of, const void* self, py::handle object) {
                   return readable("<" + class_of(object) + " " + of.repr(self) + ">");
                 });
  }
  const auto shows = [&](const Argument& a) { return property_of(description, a.name) != nullptr; };
  const auto shows_some = [&](const Form& form) {
    return std::ranges::any_of(form.arguments, shows);
  };
  if (description.copy != nullptr && description.copied != nullptr && description.repr == nullptr &&
      std::ranges::any_of(description.forms, shows_some)) {
    add_protocol(cls, description, "__repr__", "str", "The values.",
                 [](const ClassDescription& of, const void* self, py::handle) {
                   return py::str(represented(of, self));
                 });
  }
  if (description.str != nullptr) {
    add_protocol(cls, description, "__str__", "str", "The whole as text.",
                 [](const ClassDescription& of, const void* self, py::handle) {
                   return py::str(of.str(self));
                 });
  }
}

void add_comparison(py::handle cls, const ClassDescription& description) {
  if (description.equal == nullptr) return;
  add_protocol(cls, description, "__hash__", "int", "The same for objects that are equal.",
               [](const ClassDescription& of, const void* self, py::handle) {
                 return py::int_(of.hash(self) >> 1);  // Python's is signed
               });
  const FormBody body = [](py::detail::function_call& call, const Arguments& arguments,
                           const Capture& capture) -> py::handle {
    const ClassDescription& of = *capture.get<const ClassDescription*>();
    const void* const self = load_object(*of.type, call.args[0]);
    if (self == nullptr) return PYBIND11_TRY_NEXT_OVERLOAD;
    const void* const other = load_object(*of.type, arguments["other"]);
    return py::bool_(other != nullptr && of.equal(self, other)).release();
  };
  define(cls, Signature::Kind::kMethod, "__eq__", "bool", parsed({"other: object"}), "", body,
         Capture(&description));
}

// By what a record consists of.
void add_pickles(py::handle cls, const ClassDescription& description) {
  if (!description.state) return;
  add_protocol(cls, description, "__getstate__", "tuple[object, ...]", "What it consists of.",
               [](const ClassDescription& of, const void* self, py::handle object) {
                 py::list values;
                 for (const Argument& kept : of.state->arguments) {
                   const Property& property = *property_of(of, kept.name);
                   values.append(cast_value(property.type, property.get(self), object));
                 }
                 return py::tuple(values);
               });
  const FormBody body = [](py::detail::function_call& call, const Arguments& arguments,
                           const Capture& capture) -> py::handle {
    const ClassDescription& of = *capture.get<const ClassDescription*>();
    const std::vector<Argument>& kept = of.state->arguments;
    const std::vector<py::object> values = to_items(arguments["state"], arguments.where("state"));
    if (values.size() != kept.size()) {
      throw InvalidArgument("[" + of.name + ".__setstate__] expected " +
                            std::to_string(kept.size()) + " values of a record but got " +
                            std::to_string(values.size()));
    }
    Given given;
    for (std::size_t k = 0; k < kept.size(); ++k) {
      const Where where{of.name, kept[k].name, taken_annotation(kept[k].type)};
      given.add(kept[k].name, load_value(kept[k].type, values[k], where));
    }
    place_made(call, of, of.state->make(given));
    return py::none().release();
  };
  define(cls, Signature::Kind::kMethod, "__setstate__", "None",
         parsed({"state: tuple[object, ...]"}), "From what __getstate__ gives.", body,
         Capture(&description));
}

constexpr const char* kCopyText = "An independent object with the same values.";

// An object of the class that it is of, of several that share a base.
py::object copy_of(const ClassDescription& description, const void* self) {
  const std::any made = description.copied(self);
  return description.copy != nullptr ? cast_made(description.name, made)
                                     : cast_value(ValueType{&made.type()}, made, {});
}

void add_copies(py::handle cls, const ClassDescription& description) {
  if (description.copied == nullptr) return;
  const auto copy = [](const ClassDescription& of, const void* self, py::handle) {
    return copy_of(of, self);
  };
  for (const char* name : {"copy", "__copy__"}) {
    add_protocol(cls, description, name, description.name, kCopyText, copy);
  }
  const FormBody deep = [](py::detail::function_call& call, const Arguments&,
                           const Capture& capture) -> py::handle {
    const ClassDescription& of = *capture.get<const ClassDescription*>();
    const void* const self = load_object(*of.type, call.args[0]);
    return self == nullptr ? PYBIND11_TRY_NEXT_OVERLOAD : copy_of(of, self).release();
  };
  define(cls, Signature::Kind::kMethod, "__deepcopy__", description.name.c_str(),
         parsed({"memo: Any"}), kCopyText, deep, Capture(&description));
}

}  // namespace

void add_protocols(py::handle cls, const ClassDescription& description) {
  add_copies(cls, description);
  add_pickles(cls, description);
  add_comparison(cls, description);
  add_texts(cls, description);
}

}  // namespace traingraph::python
