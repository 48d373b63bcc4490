#pragma once

#include <pybind11/pybind11.h>

#include <exception>

namespace traingraph::python {

// The exception object that Python code sees for a C++ one. Needs the GIL.
pybind11::object to_python(const std::exception_ptr& error);

// Sets Python's error indicator from a C++ exception, for functions that pybind11 does not wrap.
void set_python_error(const std::exception_ptr& error);

void bind_errors(pybind11::module_& module);

}  // namespace traingraph::python
