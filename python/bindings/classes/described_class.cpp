// Makes Python classes of class descriptions: types, initialisers, factories, properties,
// functions, copies and representations.
#include "classes/described_class.h"

#include <algorithm>
#include <typeindex>
#include <unordered_map>

#include "classes/python_types.h"
#include "classes/signature.h"

namespace traingraph::python {
namespace {

// Both kept for the life of the process. By the type of C++:
std::unordered_map<std::type_index, const ClassDescription*>& descriptions() {
  static auto* const by_type = new std::unordered_map<std::type_index, const ClassDescription*>;
  return *by_type;
}
// By name.
struct Bound {
  const ClassDescription* description;
  py::detail::type_info* type;
};
std::unordered_map<std::string, Bound>& bound_classes() {
  static auto* const by_name = new std::unordered_map<std::string, Bound>;
  return *by_name;
}

class NewType final : public py::detail::generic_type {
 public:
  explicit NewType(const py::detail::type_record& record) { initialize(record); }
};

py::object make_type(py::module_& module, const ClassDescription& description,
                     const Ownership& ownership) {
  py::detail::type_record record;
  record.scope = module;
  record.name = description.name.c_str();
  record.doc = description.summary.c_str();
  record.type = description.type;
  record.type_size = description.bytes;
  record.type_align = description.alignment;
  record.holder_size = ownership.holder_bytes;
  record.holder_enum_v = py::detail::holder_enum_t::std_shared_ptr;
  record.init_instance = ownership.begin;
  record.dealloc = ownership.end;
  record.custom_type_setup_callback = collected(ownership.visit).value;
  if (description.base != nullptr) record.add_base(*description.base, nullptr);
  return NewType(record);
}

// One of several classes of Python that are one in C++: derived as Python derives, its objects are
// the base's.
py::object derive_type(py::module_& module, const ClassDescription& description) {
  const py::handle base(
      reinterpret_cast<PyObject*>(py::detail::get_type_info(*description.base)->type));
  const py::object cls = py::type::of(base)(
      description.name, py::make_tuple(base),
      py::dict(py::arg("__doc__") = description.summary, py::arg("__slots__") = py::tuple(),
               py::arg("__module__") = module.attr("__name__")));
  module.attr(description.name.c_str()) = cls;
  return cls;
}

bool is_derived(const ClassDescription& description) {
  return description.base != nullptr && *description.base == *description.type;
}

void* load_object(const std::type_info& type, py::handle value) {
  py::detail::type_caster_generic caster(type);
  return caster.load(value, /*convert=*/false) ? caster.value : nullptr;
}

py::object cast_bound(const Bound& bound, const std::any& made) {
  const ClassDescription& description = *bound.description;
  return py::reinterpret_steal<py::object>(py::detail::type_caster_generic::cast(
      description.object(made), py::return_value_policy::take_ownership, {}, bound.type, nullptr,
      nullptr, description.owner(made)));
}

// --- initialisers --------------------------------------------------------------------------------

std::string line_of(const Argument& argument) {
  std::string line = argument.name + ": " + taken_annotation(argument.type);
  if (argument.value_if_absent) line += " = " + text_of(argument.type, *argument.value_if_absent);
  return line;
}

std::vector<std::string> lines_of(const std::vector<Form>& forms) {
  std::vector<std::string> lines;
  for (const Form& form : forms) {
    std::string& line = lines.emplace_back();
    for (const Argument& argument : form.arguments) {
      line += (line.empty() ? "" : ", ") + line_of(argument);
    }
  }
  return lines;
}

std::string range_text(const Range* range) {
  return range == nullptr ? "" : std::string(" Range: ") + range->text + ".";
}

// The text, and what each argument is, once.
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
  const Form& form = maker.forms[arguments.form()];
  Given given;
  for (const Argument& argument : form.arguments) {
    const char* const name = argument.name.c_str();
    given.add(name, arguments.given(name)
                        ? load_argument(argument, arguments[name], arguments.where(name))
                        : *argument.value_if_absent);
  }
  if (maker.before_making != nullptr) maker.before_making(given);
  return form.make(given);
}

void add_constructor(py::handle cls, const ClassDescription& description,
                     const Ownership& ownership) {
  const FormBody body = [](py::detail::function_call& call, const Arguments& arguments,
                           const Capture& capture) -> py::handle {
    const Maker& maker = *capture.get<const Maker*>();
    const std::any made = make(maker, arguments);
    if (maker.after_making != nullptr) maker.after_making(made, arguments);
    ++objects_made;  // of a class that Python derived as well
    // pybind11 gives a constructor the place of the object that it makes.
    auto& place = *reinterpret_cast<py::detail::value_and_holder*>(call.args[0].ptr());
    place.value_ptr() = maker.description.object(made);
    place.type->init_instance(place.inst, maker.description.owner(made));
    return py::none().release();
  };
  define(cls, Signature::Kind::kConstructor, "__init__", "None", lines_of(description.forms),
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
      lines_of(factory.forms), document_of(factory.text, factory.forms).c_str(), body,
      Capture(static_cast<const Maker*>(new Maker{description, factory.forms, nullptr, nullptr})));
}

// --- properties and copies -----------------------------------------------------------------------

struct BoundProperty {
  const std::type_info& self;
  bool (*holds)(const void* object);
  const Property& property;
};

void* load_owner(const BoundProperty& bound, py::handle value) {
  void* const object = load_object(bound.self, value);
  return object == nullptr || bound.holds == nullptr || bound.holds(object) ? object : nullptr;
}

py::handle get_property(py::detail::function_call& call) {
  const BoundProperty& bound = *captured(call).get<const BoundProperty*>();
  void* const self = load_owner(bound, call.args[0]);
  if (self == nullptr) return PYBIND11_TRY_NEXT_OVERLOAD;
  return cast_value(bound.property.type, bound.property.get(self), call.args[0]).release();
}

std::any load_property(const py::detail::function_call& call, const Property& property) {
  const std::string expected = taken_annotation(property.type);
  const Where where{class_of(call.args[0]), property.name, expected};
  // A whole number for a truth value: setters have always taken one, arguments have not.
  if (*property.type.type == typeid(bool) && PyLong_Check(call.args[1].ptr())) {
    return PyObject_IsTrue(call.args[1].ptr()) == 1;
  }
  if (!is_plain(property.type)) return load_value(property.type, call.args[1], where);
  try {
    return load_value(property.type, call.args[1], where);
  } catch (const std::exception&) {
    refuse_value(call, expected);
  }
}

py::handle set_property(py::detail::function_call& call) {
  const BoundProperty& bound = *captured(call).get<const BoundProperty*>();
  void* const self = load_owner(bound, call.args[0]);
  if (self == nullptr) return PYBIND11_TRY_NEXT_OVERLOAD;
  bound.property.set(self, load_property(call, bound.property));
  return py::none().release();
}

py::handle copy_value(py::detail::function_call& call) {
  const ClassDescription& description = *captured(call).get<const ClassDescription*>();
  void* const self = load_object(*description.type, call.args[0]);
  if (self == nullptr) return PYBIND11_TRY_NEXT_OVERLOAD;
  return cast_described(*description.type, description.copy(self)).release();
}

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
py::handle represent(py::detail::function_call& call) {
  const ClassDescription& description = *captured(call).get<const ClassDescription*>();
  void* const self = load_object(*description.type, call.args[0]);
  if (self == nullptr) return PYBIND11_TRY_NEXT_OVERLOAD;
  const Form& longest = *std::ranges::max_element(description.forms, {},
                                                  [](const Form& f) { return f.arguments.size(); });
  std::string text = "<" + description.name;
  for (const Argument& argument : longest.arguments) {
    const Property* const property = property_of(description, argument.name);
    if (property == nullptr) continue;
    text += " " + argument.name + "=" + text_of(property->type, property->get(self));
  }
  return py::cast(text + ">").release();
}

// `document` begins with the signature: "copy(self) -> MLCMatMulDescriptor".
py::object function(Body body, const Capture& capture, std::size_t arguments, py::handle cls,
                    const char* name, const std::string& document, bool is_property = false) {
  py::options options;
  options.disable_function_signatures();
  const std::string types =
      arguments == 1 ? "({object}) -> object" : "({object}, {object}) -> object";
  return make_function({body, capture, TypeNames{types, {}}, arguments, cls, name, document.c_str(),
                        false, is_property});
}

void add_functions(py::handle cls, const ClassDescription& description) {
  for (const Property& called : description.functions) {
    const std::string document =
        called.name + "(self) -> " + given_annotation(called.type) + "\n\n" + called.text;
    const Capture capture(static_cast<const BoundProperty*>(
        new BoundProperty{*description.type, description.holds, called}));
    cls.attr(called.name.c_str()) =
        function(get_property, capture, 1, cls, called.name.c_str(), document);
  }
}

void add_copies(py::handle cls, const ClassDescription& description) {
  const std::string text =
      " -> " + description.name + "\n\nAn independent object with the same values.";
  const Capture capture(&description);
  for (const char* name : {"copy", "__copy__"}) {
    cls.attr(name) =
        function(copy_value, capture, 1, cls, name, std::string(name) + "(self)" + text);
  }
  cls.attr("__deepcopy__") = function(copy_value, capture, 2, cls, "__deepcopy__",
                                      "__deepcopy__(self, memo: typing.Any)" + text);
}

}  // namespace

py::detail::value_and_holder registered(py::detail::instance* instance) {
  auto* const type = py::detail::get_type_info(Py_TYPE(reinterpret_cast<PyObject*>(instance)));
  auto place = instance->get_value_and_holder(type);
  if (!place.instance_registered()) {
    py::detail::register_instance(instance, place.value_ptr(), type);
    place.set_instance_registered();
  }
  return place;
}

void add_properties(py::handle cls, const std::type_info& self,
                    const std::vector<Property>& properties, bool (*holds)(const void*)) {
  for (const Property& property : properties) {
    const char* const name = property.name.c_str();
    const std::string text = property.text + range_text(property.range);
    const std::string document =
        property.name + "(self) -> " + given_annotation(property.type) + "\n\n" + text;
    const Capture capture(
        static_cast<const BoundProperty*>(new BoundProperty{self, holds, property}));
    py::object set;
    if (property.set != nullptr) {
      set = function(
          set_property, capture, 2, cls, name,
          property.name + "(self, value: " + taken_annotation(property.type) + ") -> None", true);
    }
    add_property(cls, name, function(get_property, capture, 1, cls, name, document, true), set,
                 text.c_str());
  }
}

void bind_described(py::module_& module, const ClassDescription& description,
                    const Ownership& ownership) {
  Bound bound{&description, nullptr};
  py::object cls;
  if (is_derived(description)) {
    cls = derive_type(module, description);
    // What pybind11 knows of the base, but for the class.
    bound.type = new py::detail::type_info(*py::detail::get_type_info(*description.base));
    bound.type->type = reinterpret_cast<PyTypeObject*>(cls.ptr());
  } else {
    descriptions().emplace(*description.type, &description);
    cls = make_type(module, description, ownership);
    bound.type = py::detail::get_type_info(*description.type);
  }
  bound_classes().emplace(description.name, bound);
  if (!description.forms.empty()) add_constructor(cls, description, ownership);
  for (const Factory& factory : description.factories) add_factory(cls, description, factory);
  add_properties(cls, *description.type, description.properties, description.holds);
  add_functions(cls, description);
  if (description.copy == nullptr || !description.is_copied) return;
  add_copies(cls, description);
  const auto is_shown = [&](const Argument& a) {
    return property_of(description, a.name) != nullptr;
  };
  const bool shows_some = std::ranges::any_of(description.forms, [&](const Form& form) {
    return std::ranges::any_of(form.arguments, is_shown);
  });
  if (!shows_some) return;
  cls.attr("__repr__") = function(represent, Capture(&description), 1, cls, "__repr__",
                                  "__repr__(self) -> str\n\nThe values.");
}

const ClassDescription& described_class(const std::type_info& type) {
  return *descriptions().at(type);
}

std::any load_described(const std::type_info& type, py::handle value, const Where& where) {
  void* const object = load_object(type, value);
  if (object == nullptr) refuse(where, value);
  return described_class(type).copy(object);
}

py::object cast_described(const std::type_info& type, const std::any& value) {
  const ClassDescription& description = described_class(type);
  return cast_made(description.name, description.owned(value));
}

py::object cast_made(const std::string& name, const std::any& made) {
  return cast_bound(bound_classes().at(name), made);
}

}  // namespace traingraph::python
