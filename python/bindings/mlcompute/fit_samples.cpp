// Samples that fit, evaluate and predict are given: arrays by name, and what is meant by others.
#include "mlcompute/fit_samples.h"

#include <optional>

#include <traingraph/errors.h>

#include "convert/data.h"
#include "convert/names.h"

namespace traingraph::python {
namespace {

// A DataLoader, a data set or a generator: it is gone through, and no array.
bool makes_batches(py::handle value) {
  const bool has_items = py::hasattr(value, "__iter__") || py::hasattr(value, "__getitem__");
  const auto has = [&](const char* name) { return py::hasattr(value, name); };
  return has_items && !PyList_Check(value.ptr()) && !PyTuple_Check(value.ptr()) &&
         !PyUnicode_Check(value.ptr()) && PyObject_CheckBuffer(value.ptr()) == 0 &&
         !has("__array__") && !has("__dlpack__") && !has("toarray") &&
         !py::isinstance<py::dict>(value) && !py::isinstance<TensorData>(value);
}

bool is_sequence(py::handle value) {
  return PyTuple_Check(value.ptr()) || PyList_Check(value.ptr());
}

// Axes of an array or a number; -1 of a dictionary of arrays, none of what is neither.
std::optional<long> axes_of(py::handle value) {
  if (PyFloat_Check(value.ptr()) || PyLong_Check(value.ptr())) return 0;
  if (py::isinstance<py::dict>(value)) return -1;
  const py::object axes = py::getattr(value, "ndim", py::none());
  int overflows = 0;
  if (!PyLong_Check(axes.ptr())) return std::nullopt;
  return PyLong_AsLongAndOverflow(axes.ptr(), &overflows);
}

Py_ssize_t length_of(py::handle value) {
  const Py_ssize_t length = PyObject_Size(value.ptr());
  if (length < 0) PyErr_Clear();
  return length;
}

constexpr long kNoAxes = -1;  // nobody knows how many are meant

// (inputs, labels), which make no one array: with axes of their own, or of so many axes as are
// meant, as an autoencoder has both.
bool is_pair(py::handle value, long axes) {
  if (!is_sequence(value)) return false;
  const py::sequence items = py::reinterpret_borrow<py::sequence>(value);
  if (items.size() != 2 && items.size() != 3) return false;
  const std::optional<long> first = axes_of(items[0]), second = axes_of(items[1]);
  if (!first || !second) return false;
  if (*first != *second || *first == -1) return true;
  return *first > 0 && *first == axes && length_of(items[0]) > 1;
}

// Of batches, or of samples, which have an axis less.
bool are_pairs(py::handle value, long axes) {
  if (!is_sequence(value) || py::len(value) == 0) return false;
  const py::object first = py::reinterpret_borrow<py::sequence>(value)[0];
  return is_pair(first, axes) || is_pair(first, axes - 1);
}

constexpr const char *kJoin = "join them: numpy.concatenate(list(…))",
                     *kJoinPairs = "join them: numpy.concatenate([x for x, y in …]), and so y";

// What gives samples one after another.
std::optional<std::string> parts_of_samples(py::handle value, long axes = kNoAxes) {
  if (are_pairs(value, axes)) return "a list of (inputs, labels)";
  if (!makes_batches(value)) return std::nullopt;
  return "'" + type_name(value) + "', which gives samples one after another";
}

// `axes`: of the one tensor that is declared.
void check_are_arrays(py::handle value, const Where& where, long axes) {
  const auto refuse = [&](const std::string& got, const std::string& advice) {
    throw py::type_error("[" + where.subject + "] expected " + where.name + ": arrays but got " +
                         got + "; " + advice);
  };
  const bool fits = where.subject.ends_with(".fit");
  if (const auto parts = parts_of_samples(value, axes)) {
    const bool scores = where.subject.ends_with(".evaluate") || are_pairs(value, axes);
    refuse(*parts, fits ? "pass an iterable of batches by batches=" : scores ? kJoinPairs : kJoin);
  }
  if (axes == kNoAxes || !is_pair(value, axes)) return;
  refuse("a pair", where.subject.ends_with(".predict") ? "pass the inputs alone"
                                                       : "pass the labels behind the inputs");
}

}  // namespace

NamedData samples(const py::object& given, const NamedTensors& declared, const Where& where,
                  const char* role) {
  if (given.is_none()) return {};
  if (py::isinstance<py::dict>(given)) {
    return named_data(given, declared, where.subject.c_str(), where.name.c_str(), role,
                      Access::kRead);
  }
  const bool is_alone = declared.size() == 1;
  check_are_arrays(
      given, where,
      is_alone ? static_cast<long>(declared.front().second->descriptor().shape.size()) : kNoAxes);
  if (declared.size() != 1) refuse_one_array(declared, where, role);
  const py::dict one(py::arg(declared.front().first.c_str()) = given);
  return named_data(one, declared, where.subject.c_str(), where.name.c_str(), role, Access::kRead);
}

SampleData to_samples(const Declared& declared, py::handle value, const Where& where,
                      const std::string& of) {
  const std::size_t count = is_sequence(value) ? py::len(value) : 0;
  const std::optional<std::string> parts = parts_of_samples(value);
  if ((count != 2 && count != 3) || parts) {
    throw InvalidArgument(
        "[" + where.subject + "] expected " + where.name +
        ": (inputs, labels) or (inputs, labels, label_weights) but got " +
        (parts                ? *parts + "; " + kJoinPairs
         : is_sequence(value) ? std::to_string(count) + " items"
                              : "'" + type_name(value) + "'") +
        (PyFloat_Check(value.ptr()) ? "; split the samples, there is no share" : ""));
  }
  const py::sequence items = py::reinterpret_borrow<py::sequence>(value);
  SampleData data;
  data.inputs = samples(items[0], declared.inputs, where, (of + "input").c_str());
  data.loss_labels = samples(items[1], declared.loss_labels, where, (of + "loss label").c_str());
  if (count == 3) {
    data.loss_label_weights =
        samples(items[2], declared.loss_label_weights, where, (of + "loss label weight").c_str());
  }
  return data;
}

}  // namespace traingraph::python
