// Cross-correlation over groups of channels, and its adjoints by data and by weights.
#include <traingraph/errors.h>

#include "ops/window.h"

namespace traingraph::ops {
namespace {

using ir::ConvolutionAttributes;
using ir::Type;
using ir::ValueId;

// How many inputs an epilogue adds: all of its list's but the bare result.
std::size_t epilogue_inputs(const ir::ScalarList& epilogue) {
  return epilogue.inputs > 1 ? static_cast<std::size_t>(epilogue.inputs) - 1 : 0;
}

// Of y for x (N, C, H, W) and weights (O, C / groups, kh, kw); raises when they do not fit.
Shape result_shape(const Inference& in, const Shape& x, const Shape& weights) {
  const auto& a = in.get<ConvolutionAttributes>();
  if (a.groups < 1) in.fail("expected 1 group or more but got " + std::to_string(a.groups));
  if (weights[1] * a.groups != x[1]) {
    in.fail("expected a source of " + std::to_string(weights[1] * a.groups) + " channels (" +
            std::to_string(a.groups) + " groups, weights " + to_string(weights) + ") but got " +
            to_string(x));
  }
  if (weights[0] % a.groups != 0) {
    in.fail("expected result channels divisible by " + std::to_string(a.groups) +
            " groups but got weights " + to_string(weights));
  }
  if (weights[2] != a.window.kernel[0] || weights[3] != a.window.kernel[1]) {
    in.fail("expected weights of a kernel " +
            to_string(Shape{a.window.kernel[0], a.window.kernel[1]}) + " but got " +
            to_string(weights));
  }
  expect_window(in, a.window, x[2], x[3]);
  return {x[0], weights[0], window_positions(a.window, 0, x[2]),
          window_positions(a.window, 1, x[3])};
}

// x (N, C, H, W), weights (O, C / groups, kh, kw) [, epilogue inputs] → y (N, O, P, Q)
std::vector<Type> infer(const Inference& in) {
  in.expect_inputs(2, 2 + epilogue_inputs(in.get<ConvolutionAttributes>().epilogue));
  in.expect_rank(0, 4, "a source");
  in.expect_rank(1, 4, "weights");
  const Type& x = in.type(0);
  const Type& weights = in.type(1);
  if (weights.batched) in.fix_batch();
  return {Type{x.data_type, result_shape(in, x.shape, weights.shape), x.batched}};
}

// Raises unless dy is what the forward op gives for these shapes.
void expect_gradient(const Inference& in, const Shape& dy, const Shape& x, const Shape& weights) {
  const Shape expected = result_shape(in, x, weights);
  if (dy != expected) {
    in.fail("expected a gradient " + to_string(expected) + " but got " + to_string(dy));
  }
}

void expect_ranks(const Inference& in, const char* second) {
  in.expect_inputs(2, 2);
  in.expect_rank(0, 4, "a gradient");
  in.expect_rank(1, 4, second);
  const Shape& result = in.get<ConvolutionAttributes>().result_shape;
  if (result.size() != 4) {
    in.fail("expected a result shape of rank 4 but got " + to_string(result));
  }
}

// dy (N, O, P, Q), weights (O, C / groups, kh, kw) → dx = result_shape (N, C, H, W), overwritten.
std::vector<Type> infer_data(const Inference& in) {
  expect_ranks(in, "weights");
  if (in.type(1).batched) in.fix_batch();
  const Shape& x = in.get<ConvolutionAttributes>().result_shape;
  expect_gradient(in, in.type(0).shape, x, in.type(1).shape);
  return {Type{in.type(0).data_type, x, in.type(0).batched}};
}

// dy (N, O, P, Q), x (N, C, H, W) → dweights = result_shape (O, C / groups, kh, kw), overwritten.
std::vector<Type> infer_weights(const Inference& in) {
  expect_ranks(in, "a source");
  const Shape& weights = in.get<ConvolutionAttributes>().result_shape;
  expect_gradient(in, in.type(0).shape, in.type(1).shape, weights);
  return {Type{in.type(1).data_type, weights, false}};
}

// Rules see the graph before fusion, so there is no epilogue to differentiate.
ConvolutionAttributes without_epilogue(const Gradient& g) {
  auto attributes = g.get<ConvolutionAttributes>();
  if (!attributes.epilogue.empty()) {
    throw InternalError("[" + std::string(ir::name(g.node.op)) +
                        "] an epilogue before differentiation");
  }
  return attributes;
}

// y is linear in x and in weights; each gradient reads the other operand.
void gradient(Gradient& g) {
  ConvolutionAttributes attributes = without_epilogue(g);
  const ValueId dy = g.result_gradient();
  const ValueId x = g.input(0), weights = g.input(1);
  if (g.wants(0)) {
    attributes.result_shape = g.graph.type(x).shape;
    g.set(0, apply1(g.graph, ir::Op::convolution_gradient_data, attributes, {dy, weights}));
  }
  if (g.wants(1)) {
    attributes.result_shape = g.graph.type(weights).shape;
    g.set(1, apply1(g.graph, ir::Op::convolution_gradient_weights, attributes, {dy, x}));
  }
}

// dx is linear in dy and in weights, and is the adjoint of the convolution: the gradient of dy is
// that convolution of dx's, and the gradient of the weights is theirs where dx's gradient is x.
void gradient_of_data(Gradient& g) {
  ConvolutionAttributes attributes = without_epilogue(g);
  const ValueId ddx = g.result_gradient();
  const ValueId dy = g.input(0), weights = g.input(1);
  if (g.wants(0)) {
    attributes.result_shape = {};
    g.set(0, apply1(g.graph, ir::Op::convolution, attributes, {ddx, weights}));
  }
  if (g.wants(1)) {
    attributes.result_shape = g.graph.type(weights).shape;
    g.set(1, apply1(g.graph, ir::Op::convolution_gradient_weights, attributes, {dy, ddx}));
  }
}

}  // namespace

const Definition convolution_definition{
    infer, gradient, {.mixed = Mixed::product, .epilogue = epilogue_of<ConvolutionAttributes>}};
const Definition convolution_gradient_data_definition{
    infer_data, gradient_of_data, {.mixed = Mixed::product}};
const Definition convolution_gradient_weights_definition{
    infer_weights, nullptr, {.mixed = Mixed::product}};

}  // namespace traingraph::ops
