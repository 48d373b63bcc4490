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

// (inputs, labels) with axes of their own, which make no one array.
bool is_pair(py::handle value) {
  if (!is_sequence(value)) return false;
  const py::sequence items = py::reinterpret_borrow<py::sequence>(value);
  if (items.size() != 2 && items.size() != 3) return false;
  const std::optional<long> first = axes_of(items[0]), second = axes_of(items[1]);
  return first && second && (*first != *second || *first == -1);
}

bool are_pairs(py::handle value) {
  if (!is_sequence(value) || py::len(value) == 0) return false;
  return is_pair(py::reinterpret_borrow<py::sequence>(value)[0]);
}

constexpr const char *kJoin = "join them: numpy.concatenate(list(…))",
                     *kJoinPairs = "join them: numpy.concatenate([x for x, y in …]), and so y";

// What gives samples one after another.
std::optional<std::string> parts_of_samples(py::handle value) {
  if (are_pairs(value)) return "a list of (inputs, labels)";
  if (!makes_batches(value)) return std::nullopt;
  return "'" + type_name(value) + "', which gives samples one after another";
}

void check_are_arrays(py::handle value, const Where& where, bool is_alone) {
  const auto refuse = [&](const std::string& got, const std::string& advice) {
    throw py::type_error("[" + where.subject + "] expected " + where.name + ": arrays but got " +
                         got + "; " + advice);
  };
  const bool fits = where.subject.ends_with(".fit");
  if (const auto parts = parts_of_samples(value)) {
    const bool scores = where.subject.ends_with(".evaluate") || are_pairs(value);
    refuse(*parts, fits ? "pass an iterable of batches by batches=" : scores ? kJoinPairs : kJoin);
  }
  if (!is_alone || !is_pair(value)) return;
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
  check_are_arrays(given, where, declared.size() == 1);
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
