// The part of bound_class.h that is compiled once: functions and properties made of type-erased
// bodies, and the TypeErrors of setters.
#include "classes/bound_class.h"

#include <cstring>
#include <string_view>

#include "convert/gil.h"

namespace traingraph::python {
namespace {

py::handle enter(py::detail::function_call& call) {
  const EnteredCall entered;
  return captured_body(call).body(call);
}

class MadeFunction final : public py::cpp_function {
 public:
  explicit MadeFunction(const Function& function) {
    auto record = make_function_record();
    record->impl = enter;
    new (record->data) CapturedBody{function.capture, function.body};
    record->nargs_pos = static_cast<std::uint16_t>(function.arguments);
    record->has_args = record->has_kwargs = function.takes_any;
    // Copied below.
    record->name = const_cast<char*>(function.name);
    record->doc = const_cast<char*>(function.doc);
    record->scope = function.cls;
    record->is_method = function.arguments != 0;
    if (function.arguments == 2) {  // a setter
      for (const char* argument : {"self", "value"}) {
        record->args.emplace_back(argument, nullptr, py::handle(), /*convert=*/true, /*none=*/true);
      }
    }
    record->is_new_style_constructor =
        function.name != nullptr && std::strcmp(function.name, "__init__") == 0;
    std::vector<const std::type_info*> types = function.signature.types;
    types.push_back(nullptr);
    initialize_generic(std::move(record), function.signature.text.c_str(), types.data(),
                       function.arguments + (function.takes_any ? 2 : 0));
  }
};

}  // namespace

std::string class_of(py::handle object) {
  return py::cast<std::string>(py::type::of(object).attr("__name__"));
}

void TypeNames::append(const char* before, const char* name, const std::type_info* const* named,
                       const char* after) {
  text.append(before).append(name).append(after);
  for (; *named != nullptr; ++named) types.push_back(*named);
}

py::object make_function(const Function& function) { return py::object(MadeFunction(function)); }

const char* kept(const char* name) { return (new std::string(name))->c_str(); }

void refuse_value(const py::detail::function_call& call, const char* property) {
  PyErr_Clear();
  // "(self: MLCLayer, arg0: str) -> None"
  const std::string_view signature = call.func.signature;
  const std::size_t end = signature.rfind(") -> ");
  const std::size_t begin = signature.rfind(": ", end) + 2;
  std::string expected(signature.substr(begin, end - begin));
  for (const char* number : {"Int", "Float"}) {
    const std::string annotated =
        std::string("typing.Supports") + number + " | typing.SupportsIndex";
    if (const std::size_t at = expected.find(annotated); at != std::string::npos) {
      expected.replace(at, annotated.size(), number[0] == 'I' ? "int" : "float");
    }
  }
  refuse_value(call, property, expected);
}

void refuse_value(const py::detail::function_call& call, const std::string& property,
                  const std::string& expected) {
  const py::handle value = call.args[1];
  // Of a number out of range the value says more than its class.
  const bool is_number = PyLong_Check(value.ptr()) || PyFloat_Check(value.ptr());
  const std::string got =
      is_number ? py::cast<std::string>(py::repr(value)) : "'" + class_of(value) + "'";
  throw py::type_error("[" + class_of(call.args[0]) + "] expected " + property + ": " + expected +
                       " but got " + got);
}

void add_property(py::handle cls, const char* name, const py::object& get, const py::object& set,
                  const char* doc) {
  const py::handle property(reinterpret_cast<PyObject*>(&PyProperty_Type));
  cls.attr(name) = property(get, set ? set : py::none(), py::none(), doc != nullptr ? doc : "");
}

}  // namespace traingraph::python
