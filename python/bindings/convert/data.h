#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <string_view>

#include <traingraph/tensor.h>

#include "convert/array_values.h"

// Between Python's arrays and the core's TensorData. Whatever points into a Python object holds a
// reference to it.
namespace traingraph::python {

// The annotation of memory that is written.
constexpr const char* kWritten = "typing_extensions.Buffer | traingraph._dlpack.SupportsDLPack";

// Where data goes, for messages: [MLCTrainingGraph.execute] … for input 'x'.
struct Target {
  const char* subject;
  const char* role;
  std::string_view name;
};

// A NumPy array over anything that offers one, of whatever type: bfloat16 is widened to float32.
// Raises DataTypeError naming the target where there is none, or the owner does not hand it over.
pybind11::object any_array(pybind11::handle value, const Target& target);

// Data that is read: in place when it can be, else converted where no value changes its kind.
// Arrays in a GPU's memory stay there and are never converted; this holds for what follows too.
// Raises DataTypeError naming target, expected and actual; InvalidArgument for masked elements,
// which no function here takes.
TensorData readable_data(pybind11::handle value, DataType type, const Target& target);

// Memory that the library writes: never a converted copy. Raises InvalidArgument.
TensorData writable_data(pybind11::handle value, DataType type, const Target& target);

// The memory of a tensor, written through by updates: of exactly this type, or of any type when it
// is kInvalid. Read-only memory is marked as such, so that the tensor makes a copy of its own.
TensorData parameter_data(pybind11::handle value, DataType type, const Target& target);

// The memory of a contiguous buffer of any type, as bytes.
TensorData raw_data(pybind11::handle value, const Target& target);

// The same of an array in a GPU's memory.
TensorData raw_gpu_data(pybind11::handle value, const Target& target);

// A view of data, kept alive by its owner; None when there is none.
pybind11::object view_of(const TensorData& data, bool writable);

// The result of an execution: a NumPy scalar for one value without axes, else an array.
pybind11::object result_of(const TensorData& data);

}  // namespace traingraph::python
