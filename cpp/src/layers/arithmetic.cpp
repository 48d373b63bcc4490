// The arithmetic layer: a table of operations, each one scalar function of the op elementwise.
#include <traingraph/arithmetic.h>
#include <traingraph/describe.h>
#include <traingraph/errors.h>

#include "layers/checks.h"

namespace traingraph {
namespace {

struct ArithmeticRow {
  const char* name;
  ir::Scalar function;
};

// By ArithmeticOperation.
constexpr ArithmeticRow kArithmeticRows[] = {
    {"Add", ir::Scalar::add},
    {"Subtract", ir::Scalar::subtract},
    {"Multiply", ir::Scalar::multiply},
    {"Divide", ir::Scalar::divide},
    {"Floor", ir::Scalar::floor},
    {"Round", ir::Scalar::round},
    {"Ceil", ir::Scalar::ceil},
    {"Sqrt", ir::Scalar::sqrt},
    {"Rsqrt", ir::Scalar::rsqrt},
    {"Sin", ir::Scalar::sin},
    {"Cos", ir::Scalar::cos},
    {"Tan", ir::Scalar::tan},
    {"Asin", ir::Scalar::asin},
    {"Acos", ir::Scalar::acos},
    {"Atan", ir::Scalar::atan},
    {"Sinh", ir::Scalar::sinh},
    {"Cosh", ir::Scalar::cosh},
    {"Tanh", ir::Scalar::tanh},
    {"Asinh", ir::Scalar::asinh},
    {"Acosh", ir::Scalar::acosh},
    {"Atanh", ir::Scalar::atanh},
    {"Pow", ir::Scalar::pow},
    {"Exp", ir::Scalar::exp},
    {"Exp2", ir::Scalar::exp2},
    {"Log", ir::Scalar::log},
    {"Log2", ir::Scalar::log2},
    {"MultiplyNoNaN", ir::Scalar::multiply_no_nan},
    {"DivideNoNaN", ir::Scalar::divide_no_nan},
    {"ElementwiseMin", ir::Scalar::minimum},
    {"ElementwiseMax", ir::Scalar::maximum},
};
constexpr int kArithmeticCount = sizeof(kArithmeticRows) / sizeof(kArithmeticRows[0]);

const ArithmeticRow& row_of(ArithmeticOperation operation) {
  return kArithmeticRows[static_cast<int>(operation)];
}

}  // namespace

Arithmetic::Arithmetic(ArithmeticOperation operation) : Layer("Arithmetic"), operation_(operation) {
  const int index = static_cast<int>(operation);
  if (index < 0 || index >= kArithmeticCount) {
    throw InvalidArgument("[Arithmetic] expected an operation from 0 to " +
                          std::to_string(kArithmeticCount - 1) + " but got " +
                          std::to_string(index));
  }
}

std::string Arithmetic::description() const {
  return std::string("Arithmetic ") + row_of(operation_).name;
}

// x (…) → (…), or x, y (…) broadcast against each other → (…).
void Arithmetic::emit(Emitter& e) const {
  const ir::Scalar function = row_of(operation_).function;
  const int arity = ir::arity(function);
  e.expect_sources(static_cast<std::size_t>(arity));
  expect_floating(e);
  // The table's tanh has two factors.
  const double factor = function == ir::Scalar::tanh ? 1 : 0;
  e.result(arity == 1 ? ops::unary(e.graph, function, e.sources[0], factor, factor)
                      : ops::binary(e.graph, function, e.sources[0], e.sources[1]));
}

const ClassDescription& Arithmetic::class_description() {
  static const ClassDescription description =
      Describing<Arithmetic, Layer>("MLCArithmeticLayer", "Combines sources element by element.")
          .argument("operation", &Arithmetic::operation, "The operation.")
          .made_of<ArithmeticOperation>(
              "Add, subtract, multiply, divide, pow (x to the power of y), multiply_no_nan and "
              "divide_no_nan (0 where y is 0), min and max take two sources, the others one. round "
              "takes half to even. Shapes: two sources broadcast as NumPy does. Types: "
              "floating-point numbers of one type. Gradient: the function's derivative, summed "
              "over "
              "broadcast axes. floor, round and ceil: 0. min and max: to the source that was "
              "taken, "
              "half to each of equals. pow: y x^(y-1), 0 where y is 0; x^y log x, 0 where x is 0 "
              "and "
              "y above. multiply_no_nan and divide_no_nan: where y is 0, that of x is 0 and that "
              "of "
              "y finite. Outside their domains functions and derivatives are what IEEE 754 gives: "
              "NaN "
              "or infinite. Errors: ValueError for another number of sources or shapes that do not "
              "broadcast, TypeError for other types. Source: "
              "developer.apple.com/documentation/mlcompute/mlcarithmeticoperation.")
          .sample([](DataType t) {
            return LayerSample{std::make_shared<Arithmetic>(ArithmeticOperation::kAdd),
                               {{{2, 2}, t}, {{2, 2}, t}}};
          });
  return description;
}

}  // namespace traingraph
