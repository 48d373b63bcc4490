// Tensor data of Python objects: NumPy arrays, DLPack, buffers and lists of numbers, in place where
// type and memory fit, else as a converted copy.
#include "convert/data.h"

#include <optional>
#include <string>

#include "convert/dlpack.h"
#include "convert/enums.h"
#include "convert/names.h"
#include "convert/numpy_arrays.h"
#include "convert/python.h"
#include "convert/release.h"

namespace traingraph::python {
namespace {

std::string place(const Target& target) {
  std::string text = target.role;
  if (!target.name.empty()) {
    text += " '" + std::string(target.name) + "'";
  }
  return text;
}

std::string subject(const Target& target) { return std::string("[") + target.subject + "] "; }

[[noreturn]] void refuse_type(const Target& target, DataType expected, const std::string& actual) {
  throw DataTypeError(subject(target) + "expected " + name(expected) + " for " + place(target) +
                      " but got " + actual);
}

// Of floats in place of classes: they may be whole numbers, or distributions.
std::string advice_on_classes(const Target& target, DataType expected, char kind,
                              const py::object& array) {
  const bool is_label = std::string_view(target.role).ends_with("loss label");
  if (!is_label || is_floating_point(expected) || kind != 'f') return "";
  const auto shape = py::tuple(array.attr("shape"));
  if (shape.size() < 2) {
    const py::object whole = array.attr("__eq__")(array.attr("round")());
    return py::cast<bool>(whole.attr("all")().attr("item")())
               ? "; classes are whole numbers: labels.astype(numpy.int32)"
               : "; classes are whole numbers, and others are for another loss, as 'mse'";
  }
  const std::string numbers = py::object(shape[1]).equal(py::int_(1))
                                  ? "; numbers are for another loss, as nn.model's loss='mse'"
                                  : "";
  return numbers +
         "; distributions over classes (one-hot) need labels of floats, of nn.model "
         "labels='one_hot'";
}

// What `call` makes of another library's object, whose refusal is said in our words.
template <typename Call>
auto handed_over(py::handle value, const Target& target, Call call) {
  try {
    return call();
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_Exception) || error.matches(PyExc_MemoryError)) throw;
    // What follows the first line is where it was raised.
    const std::string text = printable(error.value());
    throw DataTypeError(subject(target) + "expected an array that can be read for " +
                        place(target) + " but '" + type_name(value) +
                        "' refuses: " + text.substr(0, text.find('\n')) + advice(value));
  }
}

// What a library offers by DLPack.
ForeignArray offered(py::handle value, const Target& target) {
  ForeignArray array =
      handed_over(value, target, [&] { return foreign_array(value, subject(target)); });
  // PyTorch hands over the memory of a negated view as if it were none.
  const bool is_negated = handed_over(value, target, [&] {
    return py::hasattr(value, "is_neg") && py::bool_(value.attr("is_neg")());
  });
  if (is_negated) {
    throw DataTypeError(subject(target) + "expected an array that can be read for " +
                        place(target) + " but got a negated view" + advice(value));
  }
  return array;
}

// Numbers under a mask mean nothing.
void check_unmasked(py::handle array, const Target& target) {
  if (is_exact_array(array)) return;
  const py::object masked = py::module_::import("numpy").attr("ma");
  if (!py::isinstance(array, masked.attr("MaskedArray"))) return;
  const py::object mask =
      handed_over(array, target, [&] { return plain_array(masked.attr("getmaskarray")(array)); });
  const std::string count = printable(py::module_::import("numpy").attr("count_nonzero")(mask));
  if (count == "0") return;
  throw InvalidArgument(subject(target) + "expected no masked elements for " + place(target) +
                        " but got " + count + " of " + printable(mask.attr("size")) +
                        "; pass what filled(…) gives, with a number for them");
}

// The array itself, or a view of one whose class is derived: only NumPy's own methods are called.
py::object own_array(py::handle array, const Target& target) {
  check_unmasked(array, target);
  if (!is_exact_array(array)) return plain_array(array);
  return py::reinterpret_borrow<py::object>(array);
}

// A view of such an array in host memory; bfloat16, which NumPy alone does not have, as its bits.
py::object view_of(const ForeignArray& array) {
  const DataType type = array.data.data_type;
  const std::vector<py::ssize_t> strides(array.strides.begin(), array.strides.end());
  const py::dtype dtype = type == DataType::kBFloat16 ? py::dtype("uint16") : dtype_of(type);
  return py::array(dtype, array.data.shape, strides, array.data.bytes,
                   capsule_of(array.data.owner));
}

TensorData bytes_of(py::object view, const Target& target) {
  const Py_buffer* const buffer = PyMemoryView_GET_BUFFER(view.ptr());
  if (!PyBuffer_IsContiguous(buffer, 'C')) {
    throw InvalidArgument(subject(target) + "expected contiguous bytes for " + place(target) +
                          " but got a strided view");
  }
  TensorData data;
  data.bytes = buffer->buf;
  data.length = static_cast<std::size_t>(buffer->len);
  data.writable = buffer->readonly == 0;
  data.owner = share(std::move(view));
  return data;
}

// What the buffer protocol shows; a released memoryview and a closed mmap refuse.
py::object shown_memory(py::handle value, const Target& target) {
  return handed_over(value, target, [&] {
    auto view = py::reinterpret_steal<py::object>(PyMemoryView_FromObject(value.ptr()));
    if (!view) throw py::error_already_set();
    return view;
  });
}

// bytes, bytearray, uint8 memoryview and other plain buffers.
bool is_raw(const Py_buffer& buffer) {
  return buffer.itemsize == 1 &&
         (buffer.format == nullptr || buffer.format[0] == 'B' || buffer.format[0] == 'c');
}

bool offers_dlpack(py::handle value) {
  return py::hasattr(value, "__dlpack__") && py::hasattr(value, "__dlpack_device__");
}

// What DLPack offers on a GPU, or on the host in just this form; nothing where NumPy must help,
// which knows no bfloat16: that is widened into `wide`.
std::optional<TensorData> through_dlpack(py::handle value, DataType type, const Target& target,
                                         py::object& wide) {
  if (!offers_dlpack(value)) return std::nullopt;
  ForeignArray array = offered(value, target);
  const bool fits = array.data.data_type != DataType::kInvalid &&
                    (type == DataType::kInvalid || array.data.data_type == type);
  if (array.data.gpu < 0) {
    const bool aligned = reinterpret_cast<std::uintptr_t>(array.data.bytes) % 8 == 0;
    if (fits && array.dense && aligned) return std::move(array.data);
    if (array.data.data_type == DataType::kBFloat16) wide = widened(view_of(array));
    return std::nullopt;
  }
  if (!fits) {
    const std::string expected =
        type == DataType::kInvalid ? "a type that tensors have" : name(type);
    throw DataTypeError(subject(target) + "expected " + expected + " for " + place(target) +
                        " but got " + array.element_type + " on GPU " +
                        std::to_string(array.data.gpu) + "; convert it there");
  }
  if (!array.dense) {
    throw InvalidArgument(subject(target) + "expected dense row-major memory for " + place(target) +
                          " but got a strided array on GPU " + std::to_string(array.data.gpu) +
                          "; make it contiguous there");
  }
  return std::move(array.data);
}

// Tables that are mostly zeros, as SciPy has them, are no arrays but make some.
[[noreturn]] void refuse_object(py::handle value, const Target& target) {
  const bool makes_one = py::hasattr(value, "toarray");
  throw DataTypeError(subject(target) + "expected an array or bytes for " + place(target) +
                      " but got '" + type_name(value) +
                      (makes_one ? "'; pass what its toarray() gives"
                                 : "'; numpy.asarray makes an array of numbers"));
}

// An array over anything that offers one, or the raw bytes in `bytes`.
py::object to_array(py::handle value, const Target& target, TensorData& bytes) {
  if (is_array(value)) return own_array(value, target);
  if (py::isinstance<TensorData>(value)) {
    bytes = py::cast<const TensorData&>(value);
    return py::none();
  }
  if (py::hasattr(value, "__dlpack__")) {
    return handed_over(value, target, [&] {
      return plain_array(py::module_::import("numpy").attr("from_dlpack")(value));
    });
  }
  if (PyObject_CheckBuffer(value.ptr())) {
    py::object view = shown_memory(value, target);
    if (is_raw(*PyMemoryView_GET_BUFFER(view.ptr()))) {
      bytes = bytes_of(std::move(view), target);
      return py::none();
    }
    return handed_over(value, target, [&] { return plain_array(view); });
  }
  if (py::hasattr(value, "__array__")) {
    return handed_over(value, target, [&] { return plain_array(value); });
  }
  refuse_object(value, target);
}

py::object array_of_numbers(py::handle value, DataType type, const Target& target) {
  py::object array = handed_over(value, target, [&] { return numbers_of(value, type); });
  if (!array.is_none()) return array;
  throw DataTypeError(subject(target) + "expected numbers for " + place(target) +
                      " but got others, or ints beyond 64 bits, in a '" + type_name(value) + "'" +
                      first_of_others(value, objects_of(value)));
}

std::string pass_as(DataType type) {
  return std::string("; pass what astype('") + name(type) + "') gives";
}

// A dense native copy of an array of the value, where the rule for conversions allows one.
py::object converted(py::handle value, const py::object& array, DataType type,
                     const Target& target) {
  const bool to_float = is_floating_point(type);
  const bool to_boolean = type == DataType::kBoolean;
  const char kind = data_type_of(array) == DataType::kBFloat16 ? 'f' : kind_of(array);
  const bool integral = kind == 'i' || kind == 'u' || kind == 'b';
  const bool allowed = to_boolean ? kind == 'b' : to_float ? integral || kind == 'f' : integral;
  if (!allowed) {
    const std::string others = first_of_others(value, array);
    const bool are_numbers = kind == 'O' && others.empty();
    refuse_type(target, type,
                dtype_name(array) + (are_numbers ? pass_as(type) : others) +
                    advice_on_classes(target, type, kind, array));
  }
  if (type == DataType::kBFloat16) return dense_array(narrowed(array), py::dtype("uint16"));
  const py::dtype to = dtype_of(type);
  if (!to_float && !to_boolean && !values_fit(array, to)) {
    refuse_type(target, type, dtype_name(array) + " with values out of its range");
  }
  return dense_array(array, to);
}

[[noreturn]] void refuse_memory(const Target& target, const std::string& expected,
                                const std::string& actual) {
  throw InvalidArgument(subject(target) + "expected " + expected + " memory for " + place(target) +
                        ", which is written, but got " + actual);
}

// Memory that is written as it is: of a result the caller's own, of a parameter also a copy that
// the tensor shows.
TensorData exact(py::handle array, DataType type, const Target& target, bool is_result) {
  const auto instead = [is_result](const std::string& copy) {
    return is_result ? "; pass an array of that kind and keep it: a copy made for the call is lost"
                     : "; pass what " + copy + " gives";
  };
  if (data_type_of(array) != type) {
    refuse_memory(target, name(type),
                  dtype_name(array) + instead(std::string("astype('") + name(type) + "')"));
  }
  if (!in_place(array, type)) {
    refuse_memory(target, "contiguous, aligned",
                  "a strided or misaligned array" + instead("numpy.ascontiguousarray"));
  }
  return typed(array, type);
}

// The array of a value, or None and its bytes; nothing where the array is `wide`, a copy.
py::object array_or_bytes(py::handle value, DataType type, const Target& target, TensorData& bytes,
                          py::object& wide) {
  if (!is_array(value) && !py::isinstance<TensorData>(value)) {
    if (std::optional<TensorData> data = through_dlpack(value, type, target, wide)) {
      bytes = std::move(*data);
      return py::none();
    }
  }
  return wide ? py::object() : to_array(value, target, bytes);
}

// The same of memory that is written, which is no copy.
py::object written_array(py::handle value, DataType type, const Target& target, TensorData& bytes) {
  py::object wide;
  py::object array = array_or_bytes(value, type, target, bytes, wide);
  if (!wide) return array;
  const bool fits = type == DataType::kBFloat16 || type == DataType::kInvalid;
  refuse_memory(target, fits ? "contiguous, aligned" : name(type),
                fits ? "a strided or misaligned array of bfloat16" : "bfloat16");
}

}  // namespace

py::object any_array(py::handle value, const Target& target) {
  if (is_array(value)) return own_array(value, target);
  if (offers_dlpack(value)) {
    const ForeignArray array = offered(value, target);
    if (array.data.gpu < 0 && array.data.data_type == DataType::kBFloat16) {
      return widened(view_of(array));
    }
    if (array.data.gpu < 0 && array.data.data_type != DataType::kInvalid) return view_of(array);
  }
  if (!py::hasattr(value, "__array__") && py::hasattr(value, "toarray")) {
    refuse_object(value, target);
  }
  return handed_over(value, target, [&] { return plain_array(value); });
}

TensorData readable_data(py::handle value, DataType type, const Target& target) {
  if (is_exact_array(value) && in_place(value, type)) {
    return typed(value, type);
  }
  TensorData bytes;
  py::object wide;
  py::object array = is_numbers(value) ? array_of_numbers(value, type, target)
                                       : array_or_bytes(value, type, target, bytes, wide);
  if (wide) array = wide;
  if (array.is_none()) return bytes;
  if (!in_place(array, type)) array = converted(value, array, type, target);
  return typed(array, type);
}

TensorData writable_data(py::handle value, DataType type, const Target& target) {
  if (is_numbers(value)) {
    throw DataTypeError(subject(target) + "expected memory for " + place(target) +
                        ", which is written, but got '" + type_name(value) +
                        "'; pass an array and keep it");
  }
  TensorData bytes;
  const py::object array = written_array(value, type, target, bytes);
  TensorData data = array.is_none() ? std::move(bytes) : exact(array, type, target, true);
  if (!data.writable) {
    refuse_memory(target, "writable", "read-only memory");
  }
  return data;
}

TensorData parameter_data(py::handle value, DataType type, const Target& target) {
  if (is_numbers(value)) {
    const py::object array = array_of_numbers(value, type, target);
    return type == DataType::kInvalid ? typed(array, data_type_of(array))
                                      : readable_data(array, type, target);
  }
  TensorData bytes;
  const py::object array = written_array(value, type, target, bytes);
  if (array.is_none()) {
    return bytes;
  }
  const DataType actual = data_type_of(array);
  if (type == DataType::kInvalid && actual == DataType::kInvalid) {
    const std::string others = first_of_others(value, array);
    throw DataTypeError(subject(target) + "expected a native dtype that tensors have for " +
                        place(target) + " but got " + dtype_name(array) +
                        (others.empty() ? pass_as(DataType::kFloat32) : others));
  }
  return exact(array, type == DataType::kInvalid ? actual : type, target, false);
}

TensorData raw_gpu_data(py::handle value, const Target& target) {
  py::object wide;
  TensorData data = through_dlpack(value, DataType::kInvalid, target, wide).value();
  data.data_type = DataType::kInvalid;
  data.shape.clear();
  return data;
}

TensorData raw_data(py::handle value, const Target& target) {
  if (is_array(value)) check_unmasked(value, target);
  if (PyObject_CheckBuffer(value.ptr()) == 0) {
    throw DataTypeError(subject(target) + "expected an object with the buffer protocol for " +
                        place(target) + " but got '" + type_name(value) + "'");
  }
  return bytes_of(shown_memory(value, target), target);
}

py::object view_of(const TensorData& data, bool writable) {
  if (data.bytes == nullptr) {
    return py::none();
  }
  py::array array(dtype_of(data.data_type), data.shape, {}, data.bytes, capsule_of(data.owner));
  if (!writable) {
    array.attr("flags").attr("writeable") = false;
  }
  return array;
}

py::object result_of(const TensorData& data) {
  py::object array = view_of(data, true);
  return data.bytes != nullptr && data.shape.empty() ? py::object(array[py::tuple()]) : array;
}

}  // namespace traingraph::python
