// Values of traingraph::nn: inputs, operators, and functions of values.
#include "mlcompute/nn_values.h"

#include "classes/bound_class.h"
#include "classes/signature.h"
#include "convert/convert.h"

namespace traingraph::python {
namespace {

using nn::Value;
using Axes = std::vector<std::int64_t>;

Value value_in(const Arguments& given, std::string_view name) {
  Where where = given.where(name);
  where.expected = "Value | float";
  return to_value(given[name], where);
}

Axes axes_in(const Arguments& given) {
  const py::object value = given["axis"];
  if (value.is_none()) return {};
  if (PyIndex_Check(value.ptr())) return {to_integer(value, given.where("axis"))};
  return given.get<Axes>("axis");
}

struct Unary {
  const char* name;
  Value (*call)(const Value&);
  const char* doc;
};
constexpr Unary kUnary[] = {
    {"abs", nn::abs, "|x| of each element; gradient 0 at 0."},
    {"square", nn::square, "x² of each element."},
    {"sqrt", nn::sqrt, "The square root of each element; NaN below 0."},
    {"exp", nn::exp, "e to the power of each element."},
    {"log", nn::log, "The natural logarithm of each element; NaN below 0."},
    {"sin", nn::sin, "The sine of each element, in radians."},
    {"cos", nn::cos, "The cosine of each element, in radians."},
    {"tanh", nn::tanh, "The hyperbolic tangent of each element."},
    {"stop_gradient", nn::stop_gradient, "The same value, through which no gradient flows."},
};

struct Binary {
  const char* name;
  Value (*call)(const Value&, const Value&);
  const char* doc;
};
constexpr Binary kBinary[] = {
    {"minimum", nn::minimum, "The smaller of two elements; extents of 1 broadcast."},
    {"maximum", nn::maximum, "The larger of two elements; extents of 1 broadcast."},
    {"matmul", nn::matmul, "The matrix product of the last two axes, of each sample."},
};

struct Operator {
  const char* name;
  const char* reflected;  // null: Python asks the other way round itself
  Value (*call)(const Value&, const Value&);
};
constexpr Operator kOperators[] = {
    {"__add__", "__radd__", nn::operator+}, {"__sub__", "__rsub__", nn::operator-},
    {"__mul__", "__rmul__", nn::operator*}, {"__truediv__", "__rtruediv__", nn::operator/},
    {"__pow__", "__rpow__", nn::pow},       {"__lt__", nullptr, nn::operator<},
    {"__le__", nullptr, nn::operator<=},    {"__gt__", nullptr, nn::operator>},
    {"__ge__", nullptr, nn::operator>=},
};

bool is_value(py::handle value) {
  return py::isinstance<Value>(value) || PyNumber_Check(value.ptr()) != 0;
}

void def_operator(BoundClass<Value>& cls, const char* name,
                  Value (*call)(const Value&, const Value&), bool is_reflected) {
  def_method(cls, name, "Value", {"other: Value | float"}, "A layer over both.",
             [call, is_reflected](const Value& self, const Arguments& given) -> py::object {
               const py::object other = given["other"];
               if (!is_value(other)) return py::reinterpret_borrow<py::object>(Py_NotImplemented);
               const Value value = value_in(given, "other");
               return py::cast(is_reflected ? call(value, self) : call(self, value));
             });
}

void bind_class(py::module_& module) {
  auto cls = BoundClass<Value>(
      module, "Value",
      "A tensor of a network that nn.model is still to make: nn.Input, what a block gives that is "
      "called with a value, or an expression. Operators + - * / ** < <= > >= take values and "
      "numbers, element by element; extents of 1 broadcast, but values of the batch have one rank. "
      "Errors: ValueError, when the model is made.");
  for (const Operator& each : kOperators) {
    def_operator(cls, each.name, each.call, false);
    if (each.reflected != nullptr) def_operator(cls, each.reflected, each.call, true);
  }
  cls.def("__neg__", [](const Value& self) { return -self; });
  cls.def("__abs__", [](const Value& self) { return nn::abs(self); });
  cls.def("__bool__", [](const Value& self) -> bool {
    throw py::type_error("[Value] expected no question whether " + self.text() +
                         " is true, which a run decides; nn.where() chooses");
  });
  cls.def("__repr__", [](const Value& self) { return "<Value " + self.text() + ">"; });
  bind_array_operators(cls);
}

void bind_functions(py::module_& module) {
  for (const Unary& each : kUnary) {
    def_function(module, each.name, "Value", {"x: Value | float"}, each.doc,
                 [call = each.call](const Arguments& given) { return call(value_in(given, "x")); });
  }
  for (const Binary& each : kBinary) {
    def_function(module, each.name, "Value", {"x: Value | float, y: Value | float"}, each.doc,
                 [call = each.call](const Arguments& given) {
                   return call(value_in(given, "x"), value_in(given, "y"));
                 });
  }
  def_function(
      module, "clip", "Value", {"x: Value | float, least: Value | float, most: Value | float"},
      "Elements below least are least, above most are most; their gradient is 0.",
      [](const Arguments& given) {
        return nn::clip(value_in(given, "x"), value_in(given, "least"), value_in(given, "most"));
      });
  def_function(module, "where", "Value", {"condition: Value, x: Value | float, y: Value | float"},
               "x where the condition holds, y elsewhere; the condition is a comparison.",
               [](const Arguments& given) {
                 return nn::where(value_in(given, "condition"), value_in(given, "x"),
                                  value_in(given, "y"));
               });
  const std::string reduced = "x: Value, axis: int | Sequence[int] | None = None";
  def_function(
      module, "mean", "Value", {reduced},
      "The mean over these axes, of which the batch is 0, or over all. Shapes: reduced "
      "axes stay with extent 1.",
      [](const Arguments& given) { return nn::mean(value_in(given, "x"), axes_in(given)); });
  def_function(
      module, "sum", "Value", {reduced}, "The sum; otherwise as mean.",
      [](const Arguments& given) { return nn::sum(value_in(given, "x"), axes_in(given)); });
  def_function(module, "concatenate", "Value", {"values: Sequence[Value], axis: int = 1"},
               "Values joined along an axis, of which the batch is 0.", [](const Arguments& given) {
                 const Where where = given.where("values");
                 std::vector<Value> values;
                 for (const py::object& item : to_items(given["values"], where)) {
                   values.push_back(to_value(item, where.of_item(values.size())));
                 }
                 return nn::concatenate(values, given.get<std::int64_t>("axis"));
               });
  def_function(module, "gather", "Value", {"x: Value, indices: Value, axis: int = 1"},
               "The elements of each row along an axis that whole numbers name. Shapes: indices "
               "have as many axes as x.",
               [](const Arguments& given) {
                 return nn::gather(value_in(given, "x"), value_in(given, "indices"),
                                   given.get<std::int64_t>("axis"));
               });
  def_function(
      module, "loss", "Value", {"name: str, prediction: Value, labels: Value | float"},
      "A loss by a model's names, of each row or element. Shapes: the prediction's; of a loss "
      "over classes their axis has extent 1. labels may be a number. Errors: ValueError that lists "
      "the names.",
      [](const Arguments& given) {
        return nn::loss(given.get<std::string>("name"), value_in(given, "prediction"),
                        value_in(given, "labels"));
      });
  def_function(
      module, "Input", "Value",
      {"shape: int | Sequence[int], *, name: str | None = None, data_type: MLCDataType | "
       "DTypeLike = MLCDataType.FLOAT32"},
      "An array of the caller's. Shapes: (N, *shape). Without a name it is the model's 'x', or "
      "'x0', 'x1', … of several; 'y' for labels, which the loss alone reads.",
      [](const Arguments& given) {
        nn::InputOptions options;
        const auto name = given.optional<std::string>("name");
        if (name && name->empty()) {
          throw InvalidArgument("[Input] expected name: a text or None but got an empty text");
        }
        options.name = name.value_or("");
        options.data_type = given.get<DataType>("data_type");
        return nn::input(to_sample(given["shape"], given.where("shape")), options);
      });
}

}  // namespace

Shape to_sample(py::handle value, const Where& where) {
  if (PyIndex_Check(value.ptr())) return {to_integer(value, where)};
  const bool is_list = PyTuple_Check(value.ptr()) || PyList_Check(value.ptr());
  if (is_list && py::len(value) > 1 && py::reinterpret_borrow<py::sequence>(value)[0].is_none()) {
    throw py::type_error("[" + where.subject + "] expected " + where.name +
                         ": the extents of a sample but got " + printable(value) +
                         "; leave out None, the batch, which batch_size has");
  }
  return convert<Shape>(value, where);
}

nn::Value to_value(py::handle value, const Where& where) {
  if (py::isinstance<Value>(value)) return py::cast<Value>(value);
  if (!is_value(value)) refuse(where, value);
  return Value(to_number(value, where));
}

void bind_nn_values(py::module_& module) {
  bind_class(module);
  bind_functions(module);
}

}  // namespace traingraph::python
