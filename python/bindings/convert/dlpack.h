#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/typing.h>

#include <optional>
#include <string>

#include <traingraph/tensor.h>

namespace traingraph::python {

// What an object offers by DLPack, where it lies.
struct ForeignArray {
  TensorData data;           // data_type is kInvalid for elements that tensors do not have
  std::string element_type;  // for messages
  bool dense = true;         // row-major without gaps
  Shape strides;             // in bytes; empty: dense
};

// Whether an object offers an array in a GPU's memory.
bool is_on_gpu(pybind11::handle value, const std::string& subject);

// An array of any object with __dlpack__, which the result keeps alive. One in a GPU's memory has
// what was enqueued for it before all work that is enqueued on that GPU here from now on. Raises
// InvalidArgument with this subject for other devices, and where no GPU can be used.
ForeignArray foreign_array(pybind11::handle value, const std::string& subject);

// What __dlpack__ takes.
constexpr const char* kDlpackForm =
    "stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None";
struct DlpackArguments {
  pybind11::object stream;
  pybind11::object max_version;
  pybind11::object dl_device;
  pybind11::object copy;
};
// What it answers for an object of this class: a capsule over the data, which it keeps alive.
// `stream` is DLPack's: on a GPU that stream waits for all work before. Raises BufferError.
pybind11::object dlpack_capsule(const TensorData& data, const char* of,
                                const DlpackArguments& given);
// (type, index), what __dlpack_device__ answers.
pybind11::typing::Tuple<int, int> dlpack_device(const TensorData& data);

}  // namespace traingraph::python
