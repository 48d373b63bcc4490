// Normalisation per channel (axis 1) by the statistics of the batch, and its gradient.
#include <traingraph/errors.h>

#include "ops/op.h"

namespace traingraph::ops {
namespace {

using ir::BatchNormAttributes;
using Forward = ir::BatchNormOperands;
using Backward = ir::BatchNormGradientOperands;
using ir::Type;
using ir::ValueId;

// How many inputs an epilogue or prologue adds: all of its list's but the value it starts from.
std::size_t epilogue_inputs(const ir::ScalarList& epilogue) {
  return epilogue.inputs > 1 ? static_cast<std::size_t>(epilogue.inputs) - 1 : 0;
}

// Raises unless input i is a number of rows.
void expect_rows(const Inference& in, std::size_t i) {
  const Type& type = in.type(i);
  if (type.data_type == DataType::kInt64 && type.shape.empty()) return;
  in.fail(std::string("expected a number of rows as an int64 scalar but got ") +
          name(type.data_type) + " " + to_string(type.shape));
}

// Raises unless input i is (C,) for x (N, C, …).
void expect_per_channel(const Inference& in, std::size_t i, const char* what, const Type& x) {
  if (x.rank() < 2) in.fail("expected a source (N, C, …) but got " + to_string(x.shape));
  const Shape expected = {x.shape[1]};
  if (in.type(i).shape == expected) return;
  in.fail("expected " + std::string(what) + " " + to_string(expected) + " but got " +
          to_string(in.type(i).shape));
}

// x (N, C, …), gamma (C), beta (C) [, epilogue inputs] [, coefficients (C, 4)] → y (N, C, …)
// [, mean (C), inverse_deviation (C) = 1 / sqrt(variance + epsilon), variance (C), biased
// [, coefficients (C, 4)]]; y alone where the coefficients are given
std::vector<Type> infer(const Inference& in) {
  const auto& attributes = in.get<BatchNormAttributes>();
  const bool given = attributes.coefficients == ir::Coefficients::given;
  const std::size_t others = 3 + (attributes.counts_rows ? 1 : 0) + (given ? 1 : 0);
  in.expect_inputs(others, others + epilogue_inputs(attributes.epilogue));
  const Type& x = in.type(Forward::x);
  expect_per_channel(in, Forward::gamma, "gamma", x);
  expect_per_channel(in, Forward::beta, "beta", x);
  if (attributes.counts_rows) expect_rows(in, Forward::rows);
  const Type statistics{in.type(Forward::gamma).data_type, {x.shape[1]}, false};
  const Type coefficients{statistics.data_type, {x.shape[1], 4}, false};
  if (given) {
    const Shape& shape = in.type(in.inputs.size() - 1).shape;
    if (shape == coefficients.shape) return {x};
    in.fail("expected coefficients " + to_string(coefficients.shape) + " but got " +
            to_string(shape));
  }
  std::vector<Type> results = {x, statistics, statistics, statistics};
  if (attributes.coefficients == ir::Coefficients::result) results.push_back(coefficients);
  return results;
}

// dy (N, C, …), x (N, C, …), mean (C), inverse_deviation (C), gamma (C)
// [, prologue inputs [, beta (C)]] → dx (N, C, …), dgamma (C), dbeta (C) [, what the prologue gives
// (N, C, …)], all overwritten
std::vector<Type> infer_gradient(const Inference& in) {
  const std::size_t prologue = epilogue_inputs(in.get<BatchNormAttributes>().epilogue);
  const bool counts = in.get<BatchNormAttributes>().counts_rows;
  in.expect_inputs(counts ? 6 : 5, counts ? 6 : 5 + prologue + (prologue > 0 ? 1 : 0));
  const Type& x = in.type(Backward::x);
  if (in.type(0).shape != x.shape) {
    in.fail("expected a gradient " + to_string(x.shape) + " but got " +
            to_string(in.type(0).shape));
  }
  expect_per_channel(in, Backward::mean, "mean", x);
  expect_per_channel(in, Backward::inverse_deviation, "inverse deviation", x);
  expect_per_channel(in, Backward::gamma, "gamma", x);
  if (counts) {
    expect_rows(in, Backward::rows);
  } else if (in.inputs.size() > 5 + prologue) {
    expect_per_channel(in, 5 + prologue, "beta", x);
  }
  const Type per_channel{in.type(Backward::gamma).data_type, {x.shape[1]}, false};
  std::vector<Type> results = {x, per_channel, per_channel};
  if (in.get<BatchNormAttributes>().gives_prologue) {
    if (prologue == 0) in.fail("expected a prologue that gives the fourth result but got none");
    results.push_back(in.type(0));
  }
  return results;
}

// Mean and deviation depend on x; their share is inside batch_norm_gradient. As results of their
// own they are for the running statistics only, through which nothing flows.
void gradient(Gradient& g) {
  const ValueId dy = g.result_gradient();
  for (std::size_t i = 1; i < 4; ++i) {
    if (g.result_gradient(i) != ir::kNone) {
      throw Unsupported("[batch_norm] the batch statistics have no gradient" +
                        ir::where(g.graph, g.node));
    }
  }
  const auto& attributes = g.get<BatchNormAttributes>();
  if (!attributes.epilogue.empty()) {
    throw InternalError("[batch_norm] an epilogue before differentiation");
  }
  std::vector<ValueId> operands{dy, g.input(Forward::x), g.result(Forward::mean),
                                g.result(Forward::inverse_deviation), g.input(Forward::gamma)};
  if (attributes.counts_rows) operands.push_back(g.input(Forward::rows));
  const ir::NodeId node =
      apply(g.graph, ir::Op::batch_norm_gradient, attributes, std::move(operands));
  for (std::size_t i = 0; i < 3; ++i) {
    if (g.wants(i)) g.set(i, g.graph.node(node).outputs[i]);
  }
}

}  // namespace

const Definition batch_norm_definition{
    infer,
    gradient,
    {.mixed = Mixed::follows, .half_inputs = 1, .epilogue = epilogue_of<BatchNormAttributes>}};
const Definition batch_norm_gradient_definition{
    infer_gradient, nullptr, {.mixed = Mixed::follows, .follows_input = 1, .half_inputs = 2}};

}  // namespace traingraph::ops
