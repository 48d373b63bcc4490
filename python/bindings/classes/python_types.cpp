// Table of the value types: conversion to and from Python, annotations, and the text of a default.
#include "classes/python_types.h"

#include <algorithm>
#include <cmath>
#include <typeindex>
#include <unordered_map>
#include <variant>

#include <pybind11/numpy.h>
#include <traingraph/check_gradients.h>
#include <traingraph/fit.h>
#include <traingraph/loss.h>

#include "classes/described_class.h"
#include "convert/names.h"
#include "convert/numpy_arrays.h"

namespace traingraph::python {
namespace {

using Table = std::unordered_map<std::type_index, PythonType>;

// Kept for the life of the process.
Table& all_types() {
  static auto* const table = new Table;
  return *table;
}

// Null for a described class.
const PythonType* find(const ValueType& type) {
  const auto found = all_types().find(*type.type);
  return found == all_types().end() ? nullptr : &found->second;
}

std::string annotation(const ValueType& type, std::string PythonType::* which) {
  const PythonType* const row = find(type);
  const std::string name = row != nullptr ? row->*which : described_class(*type.type).name;
  return type.optional ? name + " | None" : name;
}

// With the fewest digits that Python reads as this number, in the form 'e' or 'f'.
std::string shortest_text(float number, char form) {
  const auto is_read = [&](const std::string& text) {
    return static_cast<float>(py::float_(py::str(text))) == number;
  };
  for (int places = 0;; ++places) {
    std::string text = py::str("{:." + std::to_string(places) + form + "}").format(number);
    if (is_read(text)) return text;
    // A power of two may lie too far above its nearest digits, and not below the next ones.
    char& last = text[std::min(text.find('e'), text.size()) - 1];
    if (last == '9') continue;
    ++last;
    if (is_read(text)) return text;
  }
}

// As std::to_chars, which Apple's library has for float from macOS 13.3 on.
std::string text_of(float number) {
  if (!std::isfinite(number)) {
    return std::string(std::signbit(number) ? "-" : "") + (std::isnan(number) ? "nan" : "inf");
  }
  const std::string scientific = shortest_text(number, 'e'), plain = shortest_text(number, 'f');
  return scientific.size() < plain.size() ? scientific : plain;
}

// Two float32 numbers for each: pairs, an array, or bytes.
std::vector<AnchorBox> to_anchor_boxes(py::handle value, const Where& where) {
  const py::module_ numpy = py::module_::import("numpy");
  const bool is_raw = py::isinstance<py::bytes>(value) || py::isinstance<py::bytearray>(value);
  const std::size_t bytes = is_raw ? static_cast<std::size_t>(Py_SIZE(value.ptr())) : 0;
  if (bytes % sizeof(AnchorBox) != 0) {
    throw InvalidArgument("[" + where.subject + "] expected " + where.name +
                          " of 8 bytes for each box but got " + std::to_string(bytes) + " bytes");
  }
  py::object read;
  try {
    const py::object given = !is_raw     ? py::reinterpret_borrow<py::object>(value)
                             : bytes > 0 ? py::object(numpy.attr("frombuffer")(value, "float32"))
                                         : py::object(py::list());
    read = dense_array(given, py::dtype("float32"));
  } catch (const py::error_already_set& error) {
    // The last one where a list changes meanwhile.
    PyObject* const kinds[] = {PyExc_TypeError, PyExc_ValueError, PyExc_RuntimeError};
    if (std::ranges::none_of(kinds, [&](PyObject* kind) { return error.matches(kind); })) throw;
    refuse(where, value);
  }
  const auto numbers = py::cast<py::array_t<float, py::array::c_style>>(read);
  const bool are_pairs = numbers.ndim() == 2 && numbers.shape(1) == 2;
  if (!are_pairs && (numbers.ndim() != 1 || numbers.size() % 2 != 0)) refuse(where, value);
  std::vector<AnchorBox> boxes;
  for (py::ssize_t k = 0; k < numbers.size(); k += 2) {
    boxes.push_back({numbers.data()[k], numbers.data()[k + 1]});
  }
  return boxes;
}

py::object from_anchor_boxes(const std::vector<AnchorBox>& boxes) {
  py::list pairs;
  for (const AnchorBox& box : boxes) pairs.append(py::make_tuple(box[0], box[1]));
  return pairs;
}

// A number, or a matrix of counts.
py::object from_metrics(const Metrics& metrics) {
  py::dict result;
  for (const auto& [name, value] : metrics) {
    py::object one = py::float_(value.numbers.empty() ? 0 : value.numbers.front());
    if (!value.shape.empty()) {
      one = py::array_t<double>(value.shape, value.numbers.data()).attr("astype")("int64");
    }
    result[py::str(name)] = one;
  }
  return result;
}

Metrics to_metrics(py::handle given, const Where& where) {
  if (!py::isinstance<py::dict>(given)) refuse(where, given);
  Metrics metrics;
  for (const auto& [name, value] : py::reinterpret_borrow<py::dict>(given)) {
    const auto numbers =
        py::array_t<double, py::array::c_style | py::array::forcecast>::ensure(value);
    if (!numbers) throw py::error_already_set();
    metrics.emplace_back(to_text(name, where),
                         MetricValue{Shape(numbers.shape(), numbers.shape() + numbers.ndim()),
                                     {numbers.data(), numbers.data() + numbers.size()}});
  }
  return metrics;
}

Metadata to_metadata(py::handle given, const Where& where) {
  if (!py::isinstance<py::dict>(given)) refuse(where, given);
  Metadata metadata;
  for (const auto& [name, text] : py::reinterpret_borrow<py::dict>(given)) {
    const std::string key = to_text(name, where);
    metadata[key] = to_text(text, {where.subject, where.name + "['" + key + "']", "a text"});
  }
  return metadata;
}

}  // namespace

void remember_plain_types() {
  remember_type(typeid(void), {"None", "None", nullptr, nullptr});
  remember<bool>("bool");
  remember<int>("int");
  remember<std::int64_t>("int");
  remember<std::uint64_t>("int");
  remember<float>("float");
  remember<double>("float");
  remember<std::string>(
      "str", "str", [](py::handle value, const Where& where) { return to_text(value, where); },
      [](const std::string& text) { return py::cast(text); });
  remember_type(typeid(Shape), converted<Shape>("collections.abc.Sequence[int]", "list[int]"));
  remember<TensorPtr>("MLCTensor");
  remember_type(typeid(DataType),
                converted<DataType>("MLCDataType | numpy.typing.DTypeLike", "MLCDataType"));
  remember_type(typeid(Device), converted<Device>("MLCDevice | str", "MLCDevice"));
  remember<std::variant<int, std::string>>(
      "int | str", "int | str",
      [](py::handle value, const Where& where) -> std::variant<int, std::string> {
        if (py::isinstance<py::str>(value)) return to_text(value, where);
        return convert<int>(value, where);
      },
      [](const std::variant<int, std::string>& value) { return py::cast(value); });
  remember<Pair>(
      "int | tuple[int, int]", "tuple[int, int]",
      [](py::handle value, const Where& where) { return to_pair(value, where); },
      [](const Pair& pair) { return py::make_tuple(pair.y, pair.x); });
  remember<Padding>(
      "MLCPaddingPolicy | str", "MLCPaddingPolicy",
      [](py::handle value, const Where& where) { return to_padding(value, where); },
      [](const Padding& padding) {
        return from_padding(padding.policy, padding.sizes.y, padding.sizes.x);
      });
  remember<std::vector<AnchorBox>>(
      "numpy.typing.ArrayLike", "list[tuple[float, float]]",
      [](py::handle value, const Where& where) { return to_anchor_boxes(value, where); },
      [](const std::vector<AnchorBox>& boxes) { return from_anchor_boxes(boxes); });
  remember_part<TensorParameter>("MLCTensorParameter");
  remember_type(
      typeid(std::vector<TensorParameter*>),
      {"list[MLCTensorParameter]", "list[MLCTensorParameter]", nullptr,
       [](const std::any& value, py::handle owner) -> py::object {
         py::list parts;
         const ValueType part{&typeid(TensorParameter*)};
         for (TensorParameter* one : std::any_cast<const std::vector<TensorParameter*>&>(value)) {
           parts.append(cast_value(part, one, owner));
         }
         return parts;
       }});
  remember<LayerPtr>("MLCLayer");
  remember<OptimizerPtr>("MLCOptimizer");
  remember<GraphPtr>("MLCGraph");
  remember<std::shared_ptr<TrainingGraph>>("MLCTrainingGraph");
  remember<std::shared_ptr<InferenceGraph>>("MLCInferenceGraph");
  remember<NamedTensors>(
      "collections.abc.Mapping[str, MLCTensor]", "dict[str, MLCTensor]",
      [](py::handle value, const Where& where) { return named_tensors(value, where); },
      [](const NamedTensors& tensors) {
        py::dict result;
        for (const auto& [name, tensor] : tensors) result[py::str(name)] = py::cast(tensor);
        return result;
      });
  remember_list<TensorPtr>("MLCTensor");
  remember_list<LayerPtr>("MLCLayer");
  remember_list<GraphPtr>("MLCGraph");
  remember_list<std::shared_ptr<TrainingGraph>>("MLCTrainingGraph");
  remember_list<std::shared_ptr<InferenceGraph>>("MLCInferenceGraph");
  remember_list<TensorParameter>("MLCTensorParameter");
  remember_list<Device>("MLCDevice");
  remember_list<OptimizerDeviceData>("MLCTensorOptimizerDeviceData");
  remember_list<ActivationDescriptor>("MLCActivationDescriptor");
  remember<Metrics>(
      "collections.abc.Mapping[str, numpy.typing.ArrayLike]", "dict[str, float | numpy.ndarray]",
      [](py::handle value, const Where& where) { return to_metrics(value, where); },
      [](const Metrics& metrics) { return from_metrics(metrics); });
  remember<Metadata>(
      "collections.abc.Mapping[str, str]", "dict[str, str]",
      [](py::handle value, const Where& where) { return to_metadata(value, where); },
      [](const Metadata& metadata) {
        py::dict result;
        for (const auto& [name, text] : metadata) result[py::str(name)] = py::str(text);
        return result;
      });
  remember_list<RateSchedule>("RateSchedule");
  remember_list<MemoryPlan::Entry>("MemoryPlan.Entry");
  remember_list<Profile::Entry>("Profile.Entry");
  remember_list<Profile::Layer>("Profile.Layer");
  remember_list<GradientRow>("GradientRow");
  remember_enumerations<
      ActivationType, ArithmeticOperation, ComparisonOperation, CompilationOptions, ConvolutionType,
      Precision, PaddingType, RandomInitializerType, SampleMode, DeviceType, GradientClippingType,
      LossType, LSTMResultMode, PoolingType, ReductionType, RegularizationType, SoftmaxOperation>();
}

void remember_type(const std::type_info& type, PythonType row) {
  all_types().emplace(type, std::move(row));
}

std::string taken_annotation(const ValueType& type) { return annotation(type, &PythonType::taken); }
std::string given_annotation(const ValueType& type) { return annotation(type, &PythonType::given); }

bool is_plain(const ValueType& type) {
  const PythonType* const row = find(type);
  if (row == nullptr) return false;
  const std::string& name = row->given;
  return name == "int" || name == "float" || name == "bool" || name == "str";
}

std::any load_value(const ValueType& type, py::handle value, const Where& where) {
  if (type.optional && value.is_none()) return {};
  const PythonType* const row = find(type);
  return row != nullptr ? row->load(value, where) : load_described(*type.type, value, where);
}

py::object cast_value(const ValueType& type, const std::any& value, py::handle owner) {
  if (!value.has_value()) return py::none();
  const PythonType* const row = find(type);
  return row != nullptr ? row->cast(value, owner) : cast_described(*type.type, value);
}

std::string text_of(const ValueType& type, const std::any& value) {
  if (const auto* number = std::any_cast<float>(&value)) {
    const std::string text = text_of(*number);
    const bool is_whole = text.find_first_not_of("-0123456789") == std::string::npos;
    return is_whole ? text + ".0" : text;
  }
  const py::object object = cast_value(type, value, {});
  if (!object.is_none() && py::hasattr(object, "_name_")) {  // a member of an enumeration
    return type_name(object) + "." + printable(object.attr("_name_"));
  }
  return printable(py::repr(object));
}

}  // namespace traingraph::python
