#include <traingraph/arithmetic.h>
#include <traingraph/describe.h>
#include <traingraph/errors.h>

#include "layers/checks.h"

namespace traingraph {
namespace {

constexpr const char* kNames[] = {
    "Add",   "Subtract",      "Multiply",    "Divide",         "Floor",
    "Round", "Ceil",          "Sqrt",        "Rsqrt",          "Sin",
    "Cos",   "Tan",           "Asin",        "Acos",           "Atan",
    "Sinh",  "Cosh",          "Tanh",        "Asinh",          "Acosh",
    "Atanh", "Pow",           "Exp",         "Exp2",           "Log",
    "Log2",  "MultiplyNoNaN", "DivideNoNaN", "ElementwiseMin", "ElementwiseMax",
};
constexpr int kNameCount = sizeof(kNames) / sizeof(kNames[0]);

}  // namespace

Arithmetic::Arithmetic(ArithmeticOperation operation) : Layer("Arithmetic"), operation_(operation) {
  const int index = static_cast<int>(operation);
  if (index < 0 || index >= kNameCount) {
    throw InvalidArgument("[Arithmetic] expected an operation from 0 to " +
                          std::to_string(kNameCount - 1) + " but got " + std::to_string(index));
  }
}

std::string Arithmetic::description() const {
  return std::string("Arithmetic ") + kNames[static_cast<int>(operation_)];
}

// x, y (…) broadcast against each other → (…).
void Arithmetic::emit(Emitter& e) const {
  ir::Scalar function;
  switch (operation_) {
    case ArithmeticOperation::kAdd:
      function = ir::Scalar::add;
      break;
    case ArithmeticOperation::kSubtract:
      function = ir::Scalar::subtract;
      break;
    case ArithmeticOperation::kMultiply:
      function = ir::Scalar::multiply;
      break;
    case ArithmeticOperation::kDivide:
      function = ir::Scalar::divide;
      break;
    default:
      throw Unsupported(layer_message(
          e, std::string("expected Add, Subtract, Multiply or Divide but got ") +
                 kNames[static_cast<int>(operation_)] + ", which this version does not have"));
  }
  e.expect_sources(2);
  expect_floating(e);
  e.result(ops::binary(e.graph, function, e.sources[0], e.sources[1]));
}

const ClassDescription& Arithmetic::class_description() {
  static const ClassDescription description =
      Describing<Arithmetic, Layer>("MLCArithmeticLayer", "Combines sources element by element.")
          .argument("operation", &Arithmetic::operation, "The operation.")
          .made_of<ArithmeticOperation>(
              "Shapes: two sources broadcast as NumPy does. Gradient: summed over broadcast axes. "
              "Errors: NotImplementedError for an operation without a kernel.")
          .sample([](DataType t) {
            return LayerSample{std::make_shared<Arithmetic>(ArithmeticOperation::kAdd),
                               {{{2, 2}, t}, {{2, 2}, t}}};
          });
  return description;
}

}  // namespace traingraph
