// Python classes of traingraph's errors, and the translation of C++ exceptions to them.
#include "convert/errors.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "convert/python.h"
#include "convert/unmade_objects.h"

namespace traingraph::python {
namespace {

template <class E>
bool is(const std::exception& error) {
  return dynamic_cast<const E*>(&error) != nullptr;
}

// Each behind its base: of an error the last row that holds is its class.
struct Row {
  const char* name;
  const char* base;  // null: none of ours
  PyObject* const* builtin;
  bool (*holds)(const std::exception& error);
  const char* doc;
  PyObject* type = nullptr;  // kept: exceptions may be raised while the module is being torn down
};
Row rows[] = {
    {"Error", nullptr, &PyExc_Exception, is<Error>, "Base of every error that traingraph raises."},
    {"InvalidArgument", "Error", &PyExc_ValueError, is<InvalidArgument>,
     "A mistake found while building, binding or compiling."},
    {"ShapeError", "InvalidArgument", nullptr, is<ShapeError>, "Extents that do not fit."},
    {"DataTypeError", "Error", &PyExc_TypeError, is<DataTypeError>,
     "A data type that does not fit and must not be converted."},
    {"Unsupported", "Error", &PyExc_NotImplementedError, is<Unsupported>,
     "A valid graph that the chosen device cannot run."},
    {"OutOfMemory", "Error", &PyExc_MemoryError, is<OutOfMemory>,
     "The memory asked for is not available."},
    {"DeviceError", "Error", &PyExc_RuntimeError, is<DeviceError>,
     "A vendor's call failed, or a device is missing."},
    {"DistributedError", "Error", &PyExc_RuntimeError, is<DistributedError>,
     "Ranks that train together cannot go on."},
    {"NumericError", "Error", &PyExc_FloatingPointError, is<NumericError>,
     "NaN or infinity under CHECK_NUMERICS."},
    {"FileError", "Error", &PyExc_OSError, is<FileError>, "A file cannot be read or written."},
    {"InternalError", "Error", &PyExc_RuntimeError, is<InternalError>, "A defect of traingraph."},
};

PyObject* class_of_error(std::string_view name) {
  return std::ranges::find(rows, name, &Row::name)->type;
}

void add(py::module_& module, Row& row) {
  py::list bases;
  if (row.base != nullptr) bases.append(py::handle(class_of_error(row.base)));
  if (row.builtin != nullptr) bases.append(py::handle(*row.builtin));
  const std::string qualified = std::string("traingraph.") + row.name;
  row.type = PyErr_NewExceptionWithDoc(qualified.c_str(), row.doc, py::tuple(bases).ptr(), nullptr);
  if (row.type == nullptr) throw py::error_already_set();
  module.add_object(row.name, row.type);
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
  PyErr_SetObject(class_of_error("FileError"), arguments.ptr());
}

// In the form of all errors here; OSError's own text puts the file last.
py::object text_of_file_error(const py::args& given, const py::kwargs&) {
  const py::object error = given[0];
  const py::object path = error.attr("filename");
  if (path.is_none()) return py::module_::import("builtins").attr("OSError").attr("__str__")(error);
  // A name that is no UTF-8 has halves of pairs of surrogates, which cannot be printed.
  const py::object bytes = py::module_::import("os").attr("fsencode")(path);
  return py::str("[file '{}'] {}")
      .format(bytes.attr("decode")("utf-8", "backslashreplace"), error.attr("strerror"));
}

// Without any of it from C++.
void set_host_memory(const std::exception& error) {
  PyErr_Format(class_of_error("OutOfMemory"),
               "[memory] expected more of the host's memory but got %s", error.what());
}

bool translate_once(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const FileError& e) {
    set_file_error(e);
  } catch (const Error& e) {
    const auto last = std::find_if(std::rbegin(rows), std::rend(rows),
                                   [&e](const Row& row) { return row.holds(e); });
    set(last->type, e);
  } catch (const std::bad_alloc& e) {
    set_host_memory(e);
  } catch (const std::length_error& e) {
    set_host_memory(e);  // of a container that no memory can hold
  } catch (const std::system_error& e) {
    // A thread, for whose stack there is no room.
    if (e.code() != std::errc::resource_unavailable_try_again) return false;
    set_host_memory(e);
  } catch (const py::cast_error& e) {
    // pybind11's word for an object without an owner.
    if (std::string_view(e.what()).find("non-held") == std::string_view::npos) return false;
    PyErr_SetString(PyExc_TypeError, kUnmade);
  } catch (...) {
    return false;
  }
  return true;
}

// False leaves the exception to pybind11's own translators.
bool translate(const std::exception_ptr& error) {
  try {
    return translate_once(error);
  } catch (const std::bad_alloc& e) {
    set_host_memory(e);  // no memory for the translation
    return true;
  }
}

void set_foreign_error(const std::exception_ptr& error) {
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

}  // namespace

void set_python_error(const std::exception_ptr& error) {
  if (!translate(error)) set_foreign_error(error);
}

py::object to_python(const std::exception_ptr& error) {
  set_python_error(error);
  const py::error_already_set raised;
  // Else whoever raises the object again has lost the lines that it came from.
  if (raised.trace()) PyException_SetTraceback(raised.value().ptr(), raised.trace().ptr());
  return raised.value();
}

void bind_errors(py::module_& module) {
  for (Row& row : rows) add(module, row);
  const py::handle file_error(class_of_error("FileError"));
  file_error.attr("__str__") =
      py::cpp_function(text_of_file_error, py::name("__str__"), py::is_method(file_error));

  py::register_exception_translator([](std::exception_ptr error) {
    if (error && !translate(error)) {
      std::rethrow_exception(error);
    }
  });
}

}  // namespace traingraph::python
