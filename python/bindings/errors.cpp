#include "errors.h"

#include <new>
#include <stdexcept>
#include <string_view>

#include "bindings.h"
#include "unmade_objects.h"

namespace traingraph::python {
namespace {

// Created once and kept: exceptions may be raised while the module is being torn down.
struct Classes {
  PyObject* error = nullptr;
  PyObject* invalid_argument = nullptr;
  PyObject* shape_error = nullptr;
  PyObject* data_type_error = nullptr;
  PyObject* unsupported = nullptr;
  PyObject* out_of_memory = nullptr;
  PyObject* device_error = nullptr;
  PyObject* numeric_error = nullptr;
  PyObject* file_error = nullptr;
  PyObject* internal_error = nullptr;
};
Classes classes;

PyObject* add(py::module_& module, const char* name, const char* doc, PyObject* base,
              PyObject* builtin) {
  py::list bases;
  bases.append(py::handle(base));
  if (builtin != nullptr) {
    bases.append(py::handle(builtin));
  }
  const std::string qualified = std::string("traingraph.") + name;
  PyObject* created =
      PyErr_NewExceptionWithDoc(qualified.c_str(), doc, py::tuple(bases).ptr(), nullptr);
  if (created == nullptr) {
    throw py::error_already_set();
  }
  module.add_object(name, created);
  return created;
}

// A text may quote what is no UTF-8, such as the name of a file.
py::object decoded(std::string_view text) {
  return py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

void set(PyObject* type, const std::exception& error) {
  if (const py::object message = decoded(error.what())) PyErr_SetObject(type, message.ptr());
}

// With errno, strerror and filename, as every OSError.
void set_file_error(const FileError& error) {
  const auto path = py::reinterpret_steal<py::object>(PyUnicode_DecodeFSDefaultAndSize(
      error.path().data(), static_cast<Py_ssize_t>(error.path().size())));
  const py::object reason = decoded(error.reason());
  if (!path || !reason) return;
  const py::tuple arguments = py::make_tuple(error.code(), reason, path);
  PyErr_SetObject(classes.file_error, arguments.ptr());
}

// In the form of all errors here; OSError's own text puts the file last.
py::object text_of_file_error(const py::object& error) {
  const py::object path = error.attr("filename");
  if (path.is_none()) return py::module_::import("builtins").attr("OSError").attr("__str__")(error);
  // A name that is no UTF-8 has halves of pairs of surrogates, which cannot be printed.
  const py::object bytes = py::module_::import("os").attr("fsencode")(path);
  return py::str("[file '{}'] {}")
      .format(bytes.attr("decode")("utf-8", "backslashreplace"), error.attr("strerror"));
}

void set_host_memory(const std::exception& error) {
  const std::string text =
      "[memory] expected more of the host's memory but got " + std::string(error.what());
  PyErr_SetString(classes.out_of_memory, text.c_str());
}

// False leaves the exception to pybind11's own translators.
bool translate(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ShapeError& e) {
    set(classes.shape_error, e);
  } catch (const DataTypeError& e) {
    set(classes.data_type_error, e);
  } catch (const InvalidArgument& e) {
    set(classes.invalid_argument, e);
  } catch (const Unsupported& e) {
    set(classes.unsupported, e);
  } catch (const OutOfMemory& e) {
    set(classes.out_of_memory, e);
  } catch (const DeviceError& e) {
    set(classes.device_error, e);
  } catch (const NumericError& e) {
    set(classes.numeric_error, e);
  } catch (const FileError& e) {
    set_file_error(e);
  } catch (const InternalError& e) {
    set(classes.internal_error, e);
  } catch (const Error& e) {
    set(classes.error, e);
  } catch (const std::bad_alloc& e) {
    set_host_memory(e);
  } catch (const std::length_error& e) {
    set_host_memory(e);  // of a container that no memory can hold
  } catch (const py::cast_error& e) {
    // pybind11's word for an object without an owner.
    if (std::string_view(e.what()).find("non-held") == std::string_view::npos) return false;
    PyErr_SetString(PyExc_TypeError, kUnmade);
  } catch (...) {
    return false;
  }
  return true;
}

}  // namespace

void set_python_error(const std::exception_ptr& error) {
  if (translate(error)) {
    return;
  }
  try {
    std::rethrow_exception(error);
  } catch (py::error_already_set& e) {
    e.restore();
  } catch (const py::builtin_exception& e) {
    e.set_error();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an exception of an unknown type");
  }
}

py::object to_python(const std::exception_ptr& error) {
  set_python_error(error);
  py::error_already_set raised;
  return raised.value();
}

void bind_errors(py::module_& module) {
  classes.error =
      add(module, "Error", "Base of every error that traingraph raises.", PyExc_Exception, nullptr);
  classes.invalid_argument =
      add(module, "InvalidArgument", "A mistake found while building, binding or compiling.",
          classes.error, PyExc_ValueError);
  classes.shape_error =
      add(module, "ShapeError", "Extents that do not fit.", classes.invalid_argument, nullptr);
  classes.data_type_error =
      add(module, "DataTypeError", "A data type that does not fit and must not be converted.",
          classes.error, PyExc_TypeError);
  classes.unsupported =
      add(module, "Unsupported", "A valid graph that the chosen device cannot run.", classes.error,
          PyExc_NotImplementedError);
  classes.out_of_memory = add(module, "OutOfMemory", "The memory asked for is not available.",
                              classes.error, PyExc_MemoryError);
  classes.device_error =
      add(module, "DeviceError", "A vendor's call failed, or a device is missing.", classes.error,
          PyExc_RuntimeError);
  classes.numeric_error = add(module, "NumericError", "NaN or infinity under CHECK_NUMERICS.",
                              classes.error, PyExc_FloatingPointError);
  classes.file_error =
      add(module, "FileError", "A file cannot be read or written.", classes.error, PyExc_OSError);
  py::handle(classes.file_error).attr("__str__") = py::cpp_function(
      text_of_file_error, py::name("__str__"), py::is_method(py::handle(classes.file_error)));
  classes.internal_error =
      add(module, "InternalError", "A defect of traingraph.", classes.error, PyExc_RuntimeError);

  py::register_exception_translator([](std::exception_ptr error) {
    if (error && !translate(error)) {
      std::rethrow_exception(error);
    }
  });
}

}  // namespace traingraph::python
