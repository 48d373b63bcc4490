// Reads type, memory and shape of NumPy arrays from their structures, without calls into Python.
#include "convert/numpy_arrays.h"

#include <algorithm>
#include <bit>

#include "convert/convert.h"
#include "convert/python.h"
#include "convert/release.h"

namespace traingraph::python {
namespace {

using py::detail::array_proxy;
using py::detail::npy_api;

constexpr int kNpyHalf = 23;
constexpr int kInPlace = npy_api::NPY_ARRAY_C_CONTIGUOUS_ | npy_api::NPY_ARRAY_ALIGNED_;
constexpr char kForeignOrder = std::endian::native == std::endian::little ? '>' : '<';

const py::detail::PyArrayDescr1_Proxy* descriptor(py::handle array) {
  return py::detail::array_descriptor1_proxy(array_proxy(array.ptr())->descr);
}

// bfloat16 is a type of the ml_dtypes package with a number of its own. Told without calls, which
// could let other threads run.
bool is_bfloat16(const py::detail::PyArrayDescr1_Proxy& dtype) {
  constexpr int kFirstOfUsers = 256;
  return dtype.type_num >= kFirstOfUsers && class_name(dtype.typeobj) == "bfloat16";
}

py::object from_any(py::handle value, const py::dtype* type, int flags) {
  PyObject* const descr = type != nullptr ? py::object(*type).release().ptr() : nullptr;
  auto array = py::reinterpret_steal<py::object>(npy_api::get().PyArray_FromAny_(
      value.ptr(), descr, 0, 0, flags | npy_api::NPY_ARRAY_ENSUREARRAY_, nullptr));
  if (!array) throw py::error_already_set();
  return array;
}

}  // namespace

char kind_of(py::handle array) { return descriptor(array)->kind; }

bool is_array(py::handle value) {
  return PyObject_TypeCheck(value.ptr(), npy_api::get().PyArray_Type_) != 0;
}

bool is_exact_array(py::handle value) {
  return Py_TYPE(value.ptr()) == npy_api::get().PyArray_Type_;
}

std::string dtype_name(py::handle array) { return printable(array_proxy(array.ptr())->descr); }

py::object plain_array(py::handle value) { return from_any(value, nullptr, 0); }

py::object dense_array(py::handle value, const py::dtype& type) {
  return from_any(value, &type, kInPlace | npy_api::NPY_ARRAY_FORCECAST_);
}

DataType data_type_of(py::handle array) {
  const auto* const dtype = descriptor(array);
  if (dtype->byteorder == kForeignOrder) {
    return DataType::kInvalid;
  }
  switch (dtype->type_num) {
    case npy_api::NPY_FLOAT_:
      return DataType::kFloat32;
    case npy_api::NPY_DOUBLE_:
      return DataType::kFloat64;
    case kNpyHalf:
      return DataType::kFloat16;
    case npy_api::NPY_BOOL_:
      return DataType::kBoolean;
    case npy_api::NPY_BYTE_:
      return DataType::kInt8;
    case npy_api::NPY_UBYTE_:
      return DataType::kUInt8;
    case npy_api::NPY_INT_:
      return DataType::kInt32;
    case npy_api::NPY_LONG_:
      return sizeof(long) == 8 ? DataType::kInt64 : DataType::kInt32;
    case npy_api::NPY_LONGLONG_:
      return DataType::kInt64;
    default:
      break;
  }
  return is_bfloat16(*dtype) ? DataType::kBFloat16 : DataType::kInvalid;
}

TensorData typed(py::handle array, DataType type) {
  const auto* const raw = array_proxy(array.ptr());
  TensorData data;
  data.bytes = raw->data;
  data.data_type = type;
  data.shape.assign(raw->dimensions, raw->dimensions + raw->nd);
  data.length = static_cast<std::size_t>(byte_count(data.shape, type));
  data.writable = (raw->flags & npy_api::NPY_ARRAY_WRITEABLE_) != 0;
  data.owner = share(py::reinterpret_borrow<py::object>(array));
  return data;
}

bool in_place(py::handle array, DataType type) {
  return (array_proxy(array.ptr())->flags & kInPlace) == kInPlace && data_type_of(array) == type;
}

bool is_of_array(const TensorData& data, py::handle value) {
  if (Py_TYPE(value.ptr()) != npy_api::get().PyArray_Type_) return false;
  const Kept* const kept = kept_by(data.owner);
  if (kept == nullptr || kept->object != value.ptr()) return false;
  // An array may be reshaped, retyped or resized in place.
  const auto* const raw = array_proxy(value.ptr());
  const bool writable = (raw->flags & npy_api::NPY_ARRAY_WRITEABLE_) != 0;
  return raw->data == data.bytes && writable == data.writable &&
         std::equal(data.shape.begin(), data.shape.end(), raw->dimensions,
                    raw->dimensions + raw->nd) &&
         in_place(value, data.data_type);
}

}  // namespace traingraph::python
