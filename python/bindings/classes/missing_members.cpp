// Asks in an AttributeError which member was meant: in the slots by which Python finds attributes.
#include "classes/missing_members.h"

#include <pybind11/stl.h>

#include <string>
#include <vector>

#include <traingraph/message_text.h>

#include "classes/signature.h"
#include "convert/enum_table.h"
#include "convert/enums.h"

namespace traingraph::python {
namespace {

void add_meant(PyObject* owner, PyObject* name) {
  const bool is_asked = PyErr_ExceptionMatches(PyExc_AttributeError) != 0 &&
                        PyUnicode_Check(name) && PyUnicode_GetLength(name) > 0 &&
                        PyUnicode_ReadChar(name, 0) != '_';
  if (!is_asked) return;
  py::error_already_set raised;
  try {
    const py::object error =
        py::module_::import("traingraph._missing_names")
            .attr("missing_member")(py::handle(owner), py::handle(name), raised.value());
    PyErr_SetObject(py::type::of(error).ptr(), error.ptr());
  } catch (py::error_already_set&) {  // Python ends
    raised.restore();
  }
}

PyObject* get_of_object(PyObject* self, PyObject* name) {
  PyObject* const found = PyObject_GenericGetAttr(self, name);
  if (found == nullptr) add_meant(self, name);
  return found;
}

// Of the metaclasses that ours are derived from.
getattrofunc get_of_usual_class = nullptr, get_of_usual_enumeration = nullptr;

template <getattrofunc& usual>
PyObject* get_of_class(PyObject* self, PyObject* name) {
  PyObject* const found = usual(self, name);
  if (found == nullptr) add_meant(self, name);
  return found;
}

template <getattrofunc& usual>
py::object derived_metaclass(py::handle base) {
  usual = reinterpret_cast<PyTypeObject*>(base.ptr())->tp_getattro;
  const py::handle type(reinterpret_cast<PyObject*>(&PyType_Type));
  py::object made = type(base.attr("__name__"), py::make_tuple(base), py::dict());
  made.attr("__module__") = "traingraph._core";
  reinterpret_cast<PyTypeObject*>(made.ptr())->tp_getattro = get_of_class<usual>;
  return made;
}

bool is_ours(const PyTypeObject* type) {
  return std::string(type->tp_name).rfind("traingraph.", 0) == 0;
}

// Of objects whose methods are called in each step: with a function of ours, Python would make an
// object for each call of one. It asks for the nearest name itself, where it prints the error.
bool is_called_in_steps(const PyTypeObject* type) {
  const std::string name = class_name(reinterpret_cast<PyObject*>(const_cast<PyTypeObject*>(type)));
  return name.starts_with("MPS") || name.starts_with("MTL") || name == "ExecutableGraph" ||
         name == "MLCTensor" || name == "MLCExecution";
}

// A class, and those derived from it.
void change(PyTypeObject* type, py::handle usual, py::handle metaclass, bool may_ask = true) {
  may_ask = may_ask && !is_called_in_steps(type);
  if (may_ask && type->tp_getattro == PyObject_GenericGetAttr) type->tp_getattro = get_of_object;
  const py::handle cls(reinterpret_cast<PyObject*>(type));
  if (py::type::of(cls).is(usual)) py::setattr(cls, "__class__", metaclass);
  PyType_Modified(type);
  for (const py::handle derived : cls.attr("__subclasses__")()) {
    change(reinterpret_cast<PyTypeObject*>(derived.ptr()), usual, metaclass, may_ask);
  }
}

}  // namespace

void name_missing_members() {
  const py::detail::internals& internals = py::detail::get_internals();
  const py::handle usual(reinterpret_cast<PyObject*>(internals.default_metaclass));
  static const py::handle of_classes = derived_metaclass<get_of_usual_class>(usual).release();
  const py::handle all(internals.instance_base);
  for (const py::handle cls : all.attr("__subclasses__")()) {
    auto* const type = reinterpret_cast<PyTypeObject*>(cls.ptr());
    if (is_ours(type)) change(type, usual, of_classes);
  }
  if (get_of_usual_enumeration != nullptr) return;
  const py::object enumerations = py::module_::import("enum").attr("EnumMeta");
  const py::object of_enumerations = derived_metaclass<get_of_usual_enumeration>(enumerations);
  for (const EnumRow& row : enum_table()) {
    py::setattr(enum_class(row.name.c_str()), "__class__", of_enumerations);
  }
}

void bind_nearest_name(py::module_& module) {
  def_function(module, "_nearest_name", "str | None", {"word: str, names: Sequence[str]"},
               "The name that a word is near to.", [](const Arguments& given) {
                 return nearest_name(given.get<std::string>("word"),
                                     given.get<std::vector<std::string>>("names"));
               });
}

}  // namespace traingraph::python
