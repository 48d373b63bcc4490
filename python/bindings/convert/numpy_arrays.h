#pragma once

#include <pybind11/numpy.h>

#include <string>

#include <traingraph/tensor.h>

// What a NumPy array says of itself.
namespace traingraph::python {

bool is_array(pybind11::handle value);
// Not of a class derived from it.
bool is_exact_array(pybind11::handle value);
std::string dtype_name(pybind11::handle array);
// NumPy's letter of its kind of numbers.
char kind_of(pybind11::handle array);
// An array of NumPy's own class over what offers one, and one of this type in memory of its own
// where the elements are not of it or have gaps. NumPy reads an array itself here: methods of a
// class that is derived from it are the program's, and may give anything.
pybind11::object plain_array(pybind11::handle value);
pybind11::object dense_array(pybind11::handle value, const pybind11::dtype& type);
// The type of native elements, kInvalid for any other.
DataType data_type_of(pybind11::handle array);
// Whether its memory can be used as it is, for elements of this type.
bool in_place(pybind11::handle array, DataType type);
// Its memory, which is used in place, with a reference to it.
TensorData typed(pybind11::handle array, DataType type);
// Whether the data is this array, as it is now: nothing of it need be looked at again.
bool is_of_array(const TensorData& data, pybind11::handle value);

}  // namespace traingraph::python
