#include "ops/emit.h"

namespace traingraph::ops {
namespace {

using ir::SoftmaxAttributes;
using ir::Type;

int checked_axis(const Inference& in) {
  const int axis = in.get<SoftmaxAttributes>().axis;
  if (axis < 0 || axis >= in.type(0).rank()) {
    in.fail("expected an axis below " + std::to_string(in.type(0).rank()) + " for shape " +
            to_string(in.type(0).shape) + " but got " + std::to_string(axis));
  }
  return axis;
}

std::vector<Type> infer_softmax(const Inference& in) {
  in.expect_inputs(1, 1);
  if (checked_axis(in) == 0 && in.type(0).batched) in.fix_batch();
  return {in.type(0)};
}

void gradient_of_softmax(Gradient& g) {
  g.set(0, apply1(g.graph, ir::Op::softmax_gradient, g.get<SoftmaxAttributes>(),
                  {g.result_gradient(), g.result(0)}));
}

// dy, y → dx: softmax y (dy - Σ dy y); log softmax dy - e^y Σ dy.
std::vector<Type> infer_softmax_gradient(const Inference& in) {
  in.expect_inputs(2, 2);
  checked_axis(in);
  if (in.type(0).shape != in.type(1).shape) {
    in.fail("expected gradient and result of one shape but got " + to_string(in.type(0).shape) +
            " and " + to_string(in.type(1).shape));
  }
  return {in.type(1)};
}

}  // namespace

const Definition softmax_definition{infer_softmax, gradient_of_softmax};
const Definition softmax_gradient_definition{infer_softmax_gradient, nullptr};

}  // namespace traingraph::ops
