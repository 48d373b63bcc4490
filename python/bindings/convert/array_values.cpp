// NumPy helpers of tensor data: dtypes, bfloat16 as float32 and back, lists of numbers, and whether
// values fit a type.
#include "convert/array_values.h"

#include "convert/enums.h"
#include "convert/numpy_arrays.h"
#include "convert/python.h"

namespace traingraph::python {

py::dtype dtype_of(DataType type) {
  if (type == DataType::kBoolean) {
    return py::dtype("bool");
  }
  if (type != DataType::kBFloat16) {
    return py::dtype(std::string(name(type)));
  }
  try {
    return py::dtype::from_args(py::module_::import("ml_dtypes").attr("bfloat16"));
  } catch (py::error_already_set&) {
    return py::dtype("uint16");  // the bits: NumPy alone has no such type
  }
}

py::capsule capsule_of(const std::shared_ptr<const void>& owner) {
  return {new std::shared_ptr<const void>(owner),
          [](void* held) { delete static_cast<std::shared_ptr<const void>*>(held); }};
}

std::string advice(py::handle value) {
  struct Row {
    const char* property;  // or a method
    const char* call;
  };
  constexpr Row kRows[] = {{"is_meta", nullptr},
                           {"is_sparse", "to_dense()"},
                           {"is_sparse_csr", "to_dense()"},
                           {"is_quantized", "dequantize()"},
                           {"requires_grad", "detach()"},
                           {"is_conj", "resolve_conj()"},
                           {"is_neg", "resolve_neg()"}};
  for (const Row& row : kRows) {
    try {
      py::object found = py::getattr(value, row.property, py::bool_(false));
      if (PyCallable_Check(found.ptr()) != 0) found = found();
      if (!py::isinstance<py::bool_>(found) || !py::cast<bool>(found)) continue;
      if (row.call == nullptr) return "; it has no memory: make one that has";
      return std::string("; pass what its ") + row.call + " gives";
    } catch (py::error_already_set&) {
      continue;
    }
  }
  return "; pass a plain dense array of its values";
}

py::object objects_of(py::handle list) {
  try {
    return py::module_::import("numpy").attr("array")(list, "object");
  } catch (py::error_already_set&) {
    return py::none();
  }
}

std::string first_of_others(py::handle value, const py::object& array) {
  if (array.is_none()) return "";
  if (py::cast<std::string>(array.attr("dtype").attr("kind")) != "O") return "";
  const py::module_ numpy = py::module_::import("numpy");
  const py::object number = py::module_::import("numbers").attr("Number");
  py::ssize_t position = 0;
  for (const py::handle item : array.attr("flat")) {
    const bool is_number =
        py::isinstance(item, number) || py::isinstance(item, numpy.attr("bool_"));
    if (!is_number) break;
    ++position;
  }
  if (position == py::cast<py::ssize_t>(array.attr("size"))) return "";
  const py::tuple place = numpy.attr("unravel_index")(position, array.attr("shape"));
  py::list index;
  for (const py::handle at : place) {
    index.append(py::int_(py::reinterpret_borrow<py::object>(at)));
  }
  const std::string item = "; a '" + type_name(array.attr("flat")[py::int_(position)]) + "' ";
  // A table of pandas or the like has names for its columns.
  if (index.size() == 2 && py::hasattr(value, "columns")) {
    const py::object column = value.attr("columns")[index[1]];
    return item + "in row " + py::cast<std::string>(py::str(index[0])) + " of column " +
           py::cast<std::string>(py::repr(column));
  }
  return item + "at " + py::cast<std::string>(py::str(py::tuple(index)));
}

// A bfloat16 is the upper half of a float32.
py::object widened(const py::object& bits) {
  const py::module_ numpy = py::module_::import("numpy");
  const py::object shifted = numpy.attr("left_shift")(bits.attr("astype")("uint32"), 16);
  return numpy.attr("asarray")(shifted).attr("view")("float32");
}

py::object narrowed(const py::object& array) {
  const py::module_ numpy = py::module_::import("numpy");
  const py::object wide = numpy.attr("ascontiguousarray")(array, "float32");
  const py::object bits = wide.attr("view")("uint32").attr("astype")("uint64");
  const py::object even = (bits >> py::int_(16)) & py::int_(1);
  const py::object rounded = (bits + py::int_(0x7FFF) + even) >> py::int_(16);
  return numpy.attr("where")(numpy.attr("isnan")(wide), py::int_(0x7FC0), rounded)
      .attr("astype")("uint16")
      .attr("reshape")(array.attr("shape"));
}

bool is_numbers(py::handle value) {
  PyObject* const p = value.ptr();
  return PyList_Check(p) || PyTuple_Check(p) || PyFloat_Check(p) || PyLong_Check(p);
}

py::object numbers_of(py::handle value, DataType type) {
  py::object array = plain_array(value);
  const char kind = kind_of(array);
  if (kind != 'b' && kind != 'i' && kind != 'u' && kind != 'f') return py::none();
  if (type != DataType::kInvalid || kind == 'b') return array;
  if (kind == 'f') return dense_array(array, py::dtype("float32"));
  const py::dtype narrow("int32");
  return values_fit(array, narrow) ? dense_array(array, narrow) : array;
}

bool values_fit(const py::object& array, const py::dtype& to) {
  const py::module_ numpy = py::module_::import("numpy");
  if (py::cast<bool>(numpy.attr("can_cast")(array.attr("dtype"), to, "safe")) ||
      py::cast<py::ssize_t>(array.attr("size")) == 0) {
    return true;
  }
  const py::object limits = numpy.attr("iinfo")(to);
  const py::object lowest = limits.attr("min");
  const py::object highest = limits.attr("max");
  return lowest <= py::int_(array.attr("min")()) && highest >= py::int_(array.attr("max")());
}

}  // namespace traingraph::python
