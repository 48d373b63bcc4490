#include "convert/unmade_objects.h"

#include <pybind11/pybind11.h>

#include <new>
#include <string>

#include "convert/errors.h"

namespace py = pybind11;

namespace traingraph::python {
namespace {

void* refuse_memory(std::size_t) { throw py::type_error(kUnmade); }

PyObject* new_object(PyTypeObject* type, PyObject*, PyObject*) {
  try {
    return py::detail::make_new_instance(type);
  } catch (const std::bad_alloc&) {
    set_python_error(std::current_exception());
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  }
  return nullptr;
}

// In a class and those derived from it: __new__ of one is taken for another where it is the same.
void replace_new(PyTypeObject* type, newfunc old) {
  if (type->tp_new != old) return;
  type->tp_new = new_object;
  const py::handle cls(reinterpret_cast<PyObject*>(type));
  for (const py::handle derived : cls.attr("__subclasses__")()) {
    replace_new(reinterpret_cast<PyTypeObject*>(derived.ptr()), old);
  }
}

bool is_ours(const PyTypeObject* type) {
  const std::string name = type->tp_name;
  return name.rfind("traingraph.", 0) == 0;
}

}  // namespace

void refuse_unmade_objects() {
  py::detail::internals& internals = py::detail::get_internals();
  for (const auto& [type, infos] : internals.registered_types_py) {
    if (!is_ours(type)) continue;
    for (py::detail::type_info* const info : infos) info->operator_new = refuse_memory;
  }
  auto* const base = reinterpret_cast<PyTypeObject*>(internals.instance_base);
  replace_new(base, base->tp_new);
}

}  // namespace traingraph::python
