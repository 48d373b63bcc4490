#pragma once

#include <pybind11/numpy.h>

#include <memory>
#include <string>

#include <traingraph/types.h>

// What NumPy finds in arrays that are taken, or makes of them.
namespace traingraph::python {

// bfloat16 is of the package ml_dtypes; without it, its bits as uint16.
pybind11::dtype dtype_of(DataType type);

// What an array keeps alive.
pybind11::capsule capsule_of(const std::shared_ptr<const void>& owner);

// What to call for an array that its library does not hand over, to end a message with.
std::string advice(pybind11::handle value);
// The items of a list or tuple; None where they make no array.
pybind11::object objects_of(pybind11::handle list);
// "; a 'str' in row 3 of column 'b'": the first item that is no number, of an array of objects that
// was made of the value; empty without one, and of None.
std::string first_of_others(pybind11::handle value, const pybind11::object& array);

// float32 of bfloat16 bits, and the nearest bits of any numbers: halves to even, NaN stays NaN.
pybind11::object widened(const pybind11::object& bits);
pybind11::object narrowed(const pybind11::object& array);

// A number, or a list or tuple of them.
bool is_numbers(pybind11::handle value);
// Its array as NumPy reads it, but where no type is asked for of float32 and int32; None where it
// has other things than numbers.
pybind11::object numbers_of(pybind11::handle value, DataType type);

// Whether a type of integers has every value.
bool values_fit(const pybind11::object& array, const pybind11::dtype& to);

}  // namespace traingraph::python
