// The part of bound_class.h that is compiled once: functions and properties made of type-erased
// bodies, and the TypeErrors of setters.
#include "classes/bound_class.h"

#include <cstring>
#include <string_view>

#include "classes/pickling.h"
#include "convert/convert.h"
#include "convert/gil.h"

namespace traingraph::python {
namespace {

// Names the method, or the function of a property.
[[noreturn]] void refuse_call(const py::detail::function_record& function,
                              const std::string& expected, const std::string& got) {
  throw py::type_error("[" + class_name(function.scope.ptr()) + "." + function.name +
                       "] expected " + expected + " but got " + got);
}

py::handle enter(py::detail::function_call& call) {
  const EnteredCall entered;
  py::handle result = PYBIND11_TRY_NEXT_OVERLOAD;
  try {
    result = captured_body(call).body(call);
  } catch (const py::reference_cast_error&) {
    if (call.func.args.size() == 2) refuse_value(call);  // None for an object
  }
  if (result.ptr() != PYBIND11_TRY_NEXT_OVERLOAD) return result;
  refuse_call(call.func, "self: " + class_name(call.func.scope.ptr()),
              "'" + class_of(call.args[0]) + "'");
}

// Of what makes an object: self is one of the class. A second call does nothing.
py::handle enter_making(py::detail::function_call& call) {
  auto* const cls = reinterpret_cast<PyTypeObject*>(call.func.scope.ptr());
  if (PyObject_TypeCheck(call.args[0].ptr(), cls) == 0) {
    refuse_call(call.func, "self: " + class_name(call.func.scope.ptr()),
                "'" + class_of(call.args[0]) + "'");
  }
  return place_of(call).instance_registered() ? py::none().release() : enter(call);
}

// Of what takes self, and a setter's value, alone.
py::handle enter_counted(py::detail::function_call& call) {
  const std::size_t surplus = py::len(call.args_ref) + py::len(call.kwargs_ref);
  if (surplus == 0) return enter(call);
  const std::size_t expected = call.func.args.size() - 1;
  refuse_call(call.func, expected == 0 ? "no arguments" : "one argument",
              std::to_string(expected + surplus));
}

// Of a class without a constructor.
int refuse_making(PyObject* self, PyObject*, PyObject*) {
  const std::string name = class_of(self);
  const std::string text =
      "[" + name + "] expected a class with a constructor but " + name + " has none";
  PyErr_SetString(PyExc_TypeError, text.c_str());
  return -1;
}

class MadeFunction final : public py::cpp_function {
 public:
  explicit MadeFunction(const Function& function) {
    auto record = make_function_record();
    const bool makes = std::strcmp(function.name, "__init__") == 0 ||
                       std::strcmp(function.name, "__setstate__") == 0;
    record->impl = makes                                        ? enter_making
                   : function.takes_any || function.is_property ? enter
                                                                : enter_counted;
    new (record->data) CapturedBody{function.capture, function.body};
    record->nargs_pos = static_cast<std::uint16_t>(function.arguments);
    record->has_args = record->has_kwargs = function.takes_any;
    // Both are copied below.
    record->name = const_cast<char*>(function.name);
    record->doc = const_cast<char*>(function.doc);
    record->scope = function.cls;
    record->is_method = function.arguments != 0;
    for (const char* argument : {"self", "value"}) {
      if (record->args.size() == function.arguments) break;
      record->args.emplace_back(argument, nullptr, py::handle(), /*convert=*/true, /*none=*/true);
    }
    record->is_new_style_constructor = makes;
    auto* const made = record.get();
    std::vector<const std::type_info*> types = function.signature.types;
    types.push_back(nullptr);
    initialize_generic(std::move(record), function.signature.text.c_str(), types.data(),
                       function.arguments + (function.takes_any ? 2 : 0));
    // pybind11 shall find no call that it refuses in its own words: None stands for what is
    // missing, and what is too much comes as a tuple and a dictionary.
    for (auto& argument : made->args) argument.value = py::none().release();
    made->is_constructor = made->is_new_style_constructor = false;  // so does enter_making
    if (function.is_property) return;
    made->has_args = made->has_kwargs = true;
    made->nargs = static_cast<std::uint16_t>(function.arguments + 2);
  }
};

}  // namespace

std::string class_of(py::handle object) { return class_name(py::type::of(object).ptr()); }

void TypeNames::append(const char* before, const char* name, const std::type_info* const* named,
                       const char* after) {
  text.append(before).append(name).append(after);
  for (; *named != nullptr; ++named) types.push_back(*named);
}

TypeNames any_arguments(bool has_self) {
  TypeNames names{has_self ? "({object}, " : "(", {}};
  append_type<py::args>(names, "{", "}, ");
  append_type<py::kwargs>(names, "{", "}) -> object");
  return names;
}

py::custom_type_setup set_up(VisitInstance visit) {
  return py::custom_type_setup([visit](PyHeapTypeObject* heap_type) {
    collected(visit).value(heap_type);
    PyTypeObject* const type = &heap_type->ht_type;
    type->tp_init = refuse_making;
    type->tp_methods = pickling_methods;
    // Larger than the base: else Python would let an object's __class__ or a class's __bases__ be
    // replaced by another class, and its memory be taken for another type.
    type->tp_basicsize = type->tp_base->tp_basicsize + static_cast<Py_ssize_t>(sizeof(void*));
  });
}

py::detail::value_and_holder place_of(const py::detail::function_call& call) {
  auto* const cls = reinterpret_cast<PyTypeObject*>(call.func.scope.ptr());
  auto* const instance = reinterpret_cast<py::detail::instance*>(call.args[0].ptr());
  return instance->get_value_and_holder(py::detail::get_type_info(cls));
}

py::object make_function(const Function& function) { return py::object(MadeFunction(function)); }

void refuse_value(const py::detail::function_call& call) {
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
  refuse_value(call, expected);
}

void refuse_value(const py::detail::function_call& call, const std::string& expected) {
  const py::handle value = call.args[1];
  if (PyUnicode_Check(value.ptr()) && expected.starts_with("str")) {  // with half of a pair
    to_text(value, {class_of(call.args[0]), call.func.name, expected});
  }
  // Of a number out of range the value says more than its class.
  const bool is_number = PyLong_Check(value.ptr()) || PyFloat_Check(value.ptr());
  const std::string got = is_number ? printable_ascii(value) : "'" + class_of(value) + "'";
  throw py::type_error("[" + class_of(call.args[0]) + "] expected " + call.func.name + ": " +
                       expected + " but got " + got + advice_on_rate(call.func.name, value));
}

void add_property(py::handle cls, const char* name, const py::object& get, const py::object& set,
                  const char* doc) {
  const py::handle property(reinterpret_cast<PyObject*>(&PyProperty_Type));
  cls.attr(name) = property(get, set ? set : py::none(), py::none(), doc != nullptr ? doc : "");
}

}  // namespace traingraph::python
