// What NumPy and its users ask a value for as if it were an array.
#include <string>

#include "classes/bound_class.h"
#include "classes/signature.h"
#include "convert/convert.h"
#include "mlcompute/nn_values.h"

namespace traingraph::python {
namespace {

using nn::Value;

// Operators in whose place there is something else.
struct Refused {
  const char* name;
  const char* text;
  const char* advice;
};
constexpr Refused kRefused[] = {
    {"__and__", "&", "nn.where(a, nn.where(b, x, y), y) asks for both conditions"},
    {"__or__", "|", "nn.where(a, x, nn.where(b, x, y)) asks for either condition"},
    {"__xor__", "^", "nn.where() chooses by a condition, and ** is the power"},
    {"__matmul__", "@", "nn.matmul() multiplies the matrices of each sample"},
    {"__mod__", "%", "nn has no remainder"},
};

// What a value does for an array, or a number of NumPy's, on the left of an operator.
struct OfArray {
  const char* function;
  const char* name;
};
constexpr OfArray kOfArrays[] = {
    {"add", "__radd__"},        {"subtract", "__rsub__"}, {"multiply", "__rmul__"},
    {"divide", "__rtruediv__"}, {"power", "__rpow__"},    {"less", "__gt__"},
    {"less_equal", "__ge__"},   {"greater", "__lt__"},    {"greater_equal", "__le__"},
    {"equal", "__eq__"},        {"not_equal", "__ne__"},
};

// NumPy asks here for its functions, and for operators of what is on the left: the function, how it
// was called, and its arguments.
py::handle array_ufunc(py::detail::function_call& call) {
  const Value* const self = load_self<Value>(call);
  if (self == nullptr) return PYBIND11_TRY_NEXT_OVERLOAD;
  const auto given = py::reinterpret_borrow<py::tuple>(call.args[1]);
  const bool has_options = py::len(call.args[2]) != 0;
  const std::string name = given.empty() ? "function" : printable(given[0].attr("__name__"));
  const bool is_operator = given.size() == 4 && !has_options && !py::isinstance<Value>(given[2]) &&
                           py::isinstance<Value>(given[3]);
  for (const OfArray& each : kOfArrays) {
    if (is_operator && name == each.function) {
      return py::object(given[3].attr(each.name)(given[2])).release();
    }
  }
  const py::object meant =
      py::module_::import("traingraph._missing_names").attr("meant_of_value")(name);
  throw py::type_error("[Value] expected a function of traingraph.nn over " + self->text() +
                       " but got numpy." + name + ", which is of arrays" +
                       (meant.is_none() ? "" : "; did you mean " + printable(meant) + "?"));
}

void def_array_ufunc(BoundClass<Value>& cls) {
  py::options options;
  options.disable_function_signatures();
  const char* const document =
      "__array_ufunc__(self, *inputs: typing.Any, **options: typing.Any) -> typing.Any\n\n"
      "Raises TypeError, but for operators whose left side is a number of NumPy's.";
  cls.attr("__array_ufunc__") = make_function(
      {array_ufunc, Capture(0), any_arguments(true), 1, cls, "__array_ufunc__", document, true});
}

}  // namespace

void bind_array_operators(BoundClass<nn::Value>& cls) {
  def_method(cls, "__getitem__", "Value", {"index: Any"}, "Raises TypeError.",
             [](const Value& self, const Arguments&) -> Value {
               throw py::type_error("[Value] expected no index of " + self.text() +
                                    "; nn.gather() takes elements along an axis, nn.permute() and "
                                    "nn.reshape() change axes");
             });
  cls.attr("__iter__") = py::none();
  def_method(cls, "__array__", "Any", {"dtype: Any = None, copy: Any = None"}, "Raises TypeError.",
             [](const Value& self, const Arguments&) -> Value {
               throw py::type_error("[Value] expected a function of traingraph.nn over " +
                                    self.text() +
                                    " but got one of arrays, which a value is none of until a "
                                    "model runs");
             });
  def_array_ufunc(cls);
  for (const Refused& each : kRefused) {
    def_method(cls, each.name, "Value", {"other: Any"}, "Raises TypeError.",
               [&each](const Value& self, const Arguments&) -> Value {
                 throw py::type_error("[Value] expected no operator " + std::string(each.text) +
                                      " of " + self.text() + "; " + each.advice);
               });
  }
  cls.def("__invert__", [](const Value& self) -> Value {
    throw py::type_error("[Value] expected no operator ~ of " + self.text() +
                         "; nn.where(condition, y, x) chooses the other way round");
  });
}

}  // namespace traingraph::python
