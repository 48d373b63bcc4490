// Paths of checkpoints, and arrays by name: to Python and back, in types that a state has.
#include "convert/saved_arrays.h"

#include <algorithm>

#include "convert/data.h"
#include "convert/numpy_arrays.h"

namespace traingraph::python {

std::string to_path(py::handle value, const Where& where) {
  try {
    const auto path = py::reinterpret_steal<py::object>(PyOS_FSPath(value.ptr()));
    if (!path) throw py::error_already_set();
    // Not by the methods of a class of text, which may be the program's.
    const auto bytes =
        PyUnicode_Check(path.ptr())
            ? py::reinterpret_steal<py::object>(PyUnicode_EncodeFSDefault(path.ptr()))
            : path;
    if (!bytes) throw py::error_already_set();
    return {PyBytes_AS_STRING(bytes.ptr()),
            static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.ptr()))};
  } catch (const py::error_already_set& error) {
    if (error.matches(PyExc_TypeError)) refuse(where, value);
    if (!error.matches(PyExc_UnicodeError)) throw;
    throw InvalidArgument("[" + where.subject + "] expected " + where.name +
                          " in the file system's encoding but got " + printable_ascii(value));
  }
}

Arrays to_arrays(const NamedData& data) {
  Arrays result;
  for (const auto& [name, value] : data) {
    result[py::str(name)] = view_of(value, true);
  }
  return result;
}

NamedData from_arrays(py::handle dictionary, const Where& where,
                      const std::function<NamedData()>& state) {
  if (PyMapping_Check(dictionary.ptr()) == 0 || !py::hasattr(dictionary, "keys")) {
    refuse(where, dictionary);
  }
  const std::string subject = "[" + where.subject + "] ";
  NamedData result, own;
  const py::dict arrays(py::reinterpret_borrow<py::object>(dictionary));
  for (const auto& [key, value] : items_of(arrays)) {
    if (!py::isinstance<py::str>(key)) {
      throw py::type_error(subject + "expected names as keys of " + where.name + " but got '" +
                           Py_TYPE(key.ptr())->tp_name + "'");
    }
    const std::string name = to_text(key, {where.subject, "a key of " + where.name, "str"});
    const Target target{where.subject.c_str(), "name", name};
    if (is_numbers(value)) {
      if (own.empty()) own = state();
      const auto found = std::ranges::find(own, name, &NamedData::value_type::first);
      const bool is_known = found != own.end();
      result.emplace_back(name, is_known ? readable_data(value, found->second.data_type, target)
                                         : parameter_data(value, DataType::kInvalid, target));
      continue;
    }
    // Dense, aligned and in this machine's byte order. Floats of 16 bits, which no state has, widen
    // exactly, whoever made them; any other type stays what it is.
    const py::object array = any_array(value, target);
    const py::dtype native(array.attr("dtype").attr("newbyteorder")("="));
    py::object dense = dense_array(array.attr("copy")(), native);
    const DataType type = data_type_of(dense);
    if (type == DataType::kFloat16 || type == DataType::kBFloat16) {
      dense = dense_array(dense, py::dtype::of<float>());
    }
    result.emplace_back(name, parameter_data(dense, DataType::kInvalid, target));
  }
  return result;
}

}  // namespace traingraph::python
