// Properties and functions of described classes.
#include <optional>

#include "classes/described_members.h"
#include "classes/python_types.h"

namespace traingraph::python {
namespace {

// Of objects of a class of C++, or of those that `holds` holds for.
struct BoundTo {
  const std::type_info& type;
  bool (*holds)(const void* object);

  void* load(py::handle value) const {
    void* const object = load_object(type, value);
    return object == nullptr || holds == nullptr || holds(object) ? object : nullptr;
  }
};

struct BoundProperty {
  BoundTo self;
  const Property& property;
};

struct BoundMethod {
  BoundTo self;
  const Method& method;
};

// Without the GIL where other threads may be waited for.
template <typename Call>
std::any called(bool may_wait, Call call) {
  std::optional<ReleasedGil> released;
  if (may_wait) released.emplace();
  return call();
}

std::any run(const Method& method, void* self, const Given& given) {
  if (method.wait_first != nullptr) {
    const ReleasedGil released;
    method.wait_first(self, given);
  }
  return called(method.may_wait, [&] { return method.call(self, given); });
}

py::handle call_method(py::detail::function_call& call, const Arguments& arguments,
                       const Capture& capture) {
  const BoundMethod& bound = *capture.get<const BoundMethod*>();
  void* const self = bound.self.load(call.args[0]);
  if (self == nullptr) return PYBIND11_TRY_NEXT_OVERLOAD;
  const Given given = given_of(bound.method.forms, arguments);
  const std::any result = run(bound.method, self, given);
  return cast_value(bound.method.result, result, call.args[0]).release();
}

py::handle call_class_method(py::detail::function_call&, const Arguments& arguments,
                             const Capture& capture) {
  const Method& method = *capture.get<const Method*>();
  const Given given = given_of(method.forms, arguments);
  const std::any result = run(method, nullptr, given);
  return cast_value(method.result, result, {}).release();
}

// Of one that takes nothing.
py::handle call_plain_method(py::detail::function_call& call) {
  const BoundMethod& bound = *captured(call).get<const BoundMethod*>();
  void* const self = bound.self.load(call.args[0]);
  if (self == nullptr) return PYBIND11_TRY_NEXT_OVERLOAD;
  const std::any result = run(bound.method, self, {});
  return cast_value(bound.method.result, result, call.args[0]).release();
}

py::handle get_property(py::detail::function_call& call) {
  const BoundProperty& bound = *captured(call).get<const BoundProperty*>();
  void* const self = bound.self.load(call.args[0]);
  if (self == nullptr) return PYBIND11_TRY_NEXT_OVERLOAD;
  const std::any value = called(bound.property.may_wait, [&] { return bound.property.get(self); });
  return cast_value(bound.property.type, value, call.args[0]).release();
}

std::any load_property(const py::detail::function_call& call, const Property& property) {
  const std::string expected = taken_annotation(property.type);
  const Where where{class_of(call.args[0]), property.name, expected};
  // 0 or 1 for a truth value, as Apple's BOOL has them: setters take them, arguments do not.
  if (*property.type.type == typeid(bool) && PyLong_Check(call.args[1].ptr())) {
    int overflow = 0;
    const long number = PyLong_AsLongAndOverflow(call.args[1].ptr(), &overflow);
    if (overflow == 0 && (number == 0 || number == 1)) return number == 1;
  }
  if (!is_plain(property.type)) return load_value(property.type, call.args[1], where);
  try {
    return load_value(property.type, call.args[1], where);
  } catch (const InvalidArgument&) {
    if (PyLong_Check(call.args[1].ptr())) throw;  // a number of the kind, out of its range
    refuse_value(call, expected);
  } catch (const std::exception&) {
    refuse_value(call, expected);
  }
}

py::handle set_property(py::detail::function_call& call) {
  const BoundProperty& bound = *captured(call).get<const BoundProperty*>();
  void* const self = bound.self.load(call.args[0]);
  if (self == nullptr) return PYBIND11_TRY_NEXT_OVERLOAD;
  bound.property.set(self, load_property(call, bound.property));
  return py::none().release();
}

}  // namespace

py::object function(Body body, const Capture& capture, std::size_t arguments, py::handle cls,
                    const char* name, const std::string& document, bool is_property) {
  py::options options;
  options.disable_function_signatures();
  const std::string types =
      arguments == 1 ? "({object}) -> object" : "({object}, {object}) -> object";
  return make_function({body, capture, TypeNames{types, {}}, arguments, cls, name, document.c_str(),
                        false, is_property});
}

void add_functions(py::handle cls, const ClassDescription& description) {
  for (const Method& method : description.functions) {
    const char* const name = method.name.c_str();
    const std::string result = given_annotation(method.result);
    const std::string document = document_of(method.text, method.forms);
    const Capture capture(static_cast<const BoundMethod*>(
        new BoundMethod{{*description.type, description.holds}, method}));
    if (method.forms.size() == 1 && method.forms[0].arguments.empty()) {
      cls.attr(name) = function(call_plain_method, capture, 1, cls, name,
                                method.name + "(self) -> " + result + "\n\n" + document);
    } else {
      // Nobody knows the order of so many options.
      const auto kind =
          method.name == "compile" ? Signature::Kind::kKeywordMethod : Signature::Kind::kMethod;
      define(cls, kind, name, result.c_str(), forms_of(method.forms), document.c_str(), call_method,
             capture);
    }
  }
  for (const Method& method : description.class_functions) {
    define(cls, Signature::Kind::kStatic, method.name.c_str(),
           given_annotation(method.result).c_str(), forms_of(method.forms),
           document_of(method.text, method.forms).c_str(), call_class_method, Capture(&method));
  }
}

void add_properties(py::handle cls, const std::type_info& self,
                    const std::vector<Property>& properties, bool (*holds)(const void*)) {
  for (const Property& property : properties) {
    const char* const name = property.name.c_str();
    const std::string text = property.text + range_text(property.range);
    const std::string document =
        property.name + "(self) -> " + given_annotation(property.type) + "\n\n" + text;
    const Capture capture(
        static_cast<const BoundProperty*>(new BoundProperty{{self, holds}, property}));
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

}  // namespace traingraph::python
