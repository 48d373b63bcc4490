#include "classes/pickling.h"

#include "convert/errors.h"

namespace py = pybind11;

namespace traingraph::python {
namespace {

PyObject* reduce(PyObject* self, PyObject*) {
  if (PyObject_HasAttrString(self, "_reduced")) {
    return PyObject_CallMethod(self, "_reduced", nullptr);
  }
  if (!PyObject_HasAttrString(self, "__setstate__")) {
    PyErr_Format(PyExc_TypeError, "cannot pickle '%s' object", Py_TYPE(self)->tp_name);
    return nullptr;
  }
  try {
    const py::handle object(self);
    const py::object make = py::module_::import("copyreg").attr("__newobj__");
    return py::make_tuple(make, py::make_tuple(py::type::of(object)), object.attr("__getstate__")())
        .release()
        .ptr();
  } catch (py::error_already_set& error) {
    error.restore();
    return nullptr;
  }
}

}  // namespace

PyMethodDef pickling_methods[] = {
    {"__reduce__", reduce, METH_NOARGS, "What pickles keep of it."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace traingraph::python
