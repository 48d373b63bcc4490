// Paths of checkpoints, and their arrays by name.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/typing.h>

#include <functional>
#include <string>

#include "convert/convert.h"

namespace traingraph::python {

using Arrays = py::typing::Dict<py::str, py::array>;

// A str, bytes or os.PathLike as the system's bytes.
std::string to_path(py::handle value, const Where& where);
Arrays to_arrays(const NamedData& data);
// Any arrays by name, each with the type it has, but float32 for floats of 16 bits; numbers in
// lists with that of the state, which is asked for when there are any.
NamedData from_arrays(py::handle dictionary, const Where& where,
                      const std::function<NamedData()>& state);

}  // namespace traingraph::python
