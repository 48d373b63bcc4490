// Dynamic loss scaling of mixed_float16: scales the seed, unscales gradients, and adapts the scale
// to overflows.
#include "graph/lowering/loss_scaling.h"

#include "ops/emit.h"

namespace traingraph {

using ir::Scalar;
using ir::ValueId;

std::unique_ptr<LossScaling> LossScaling::make(const GraphState& state, LoweredGraph& out) {
  if (state.precision != Precision::kMixedFloat16 || state.loss_scale == nullptr) return nullptr;
  return std::unique_ptr<LossScaling>(new LossScaling(state, out));
}

void LossScaling::prepare(GraphState& state) {
  if (!state.training || state.loss_scale != nullptr) return;
  state.loss_scale = Tensor::filled(TensorDescriptor({1}), kStart);
  state.loss_scale->set_label("loss scale");
  state.good_steps = Tensor::filled(TensorDescriptor({1}), 0);
  state.good_steps->set_label("good steps");
}

LossScaling::LossScaling(const GraphState& state, LoweredGraph& out)
    : graph_(out.lowering.graph),
      scale_(out.lowering.parameter(state.loss_scale, {})),
      good_steps_(out.lowering.parameter(state.good_steps, {})) {}

ValueId LossScaling::scaled(ValueId seed) {
  return ops::binary(graph_, Scalar::multiply, seed, scale_);
}

ValueId LossScaling::unscaled(ValueId gradient) {
  return ops::binary(graph_, Scalar::divide, gradient, scale_);
}

ValueId LossScaling::all_finite(const std::vector<ValueId>& gradients) {
  graph_.phase = ir::Phase::update;
  ValueId total = ir::kNone;
  for (ValueId gradient : gradients) {
    const ValueId count = ops::reduce_all(graph_, ir::ReduceKind::not_finite, gradient);
    total = total == ir::kNone ? count : ops::binary(graph_, Scalar::add, total, count);
  }
  ir::ScalarList list;
  list.inputs = 1;
  const int zero = list.add(Scalar::constant);
  list.results = {list.add(Scalar::where_nonzero, zero, 0, 1)};
  return ops::elementwise(graph_, std::move(list), {total})[0];
}

// With g = 1 for a step that counts, n = good steps + 1 and r = 1 where n has reached kGoodSteps:
// scale (g (1 + r) + (1 - g) / 2) within its limits, and g (1 - r) n good steps.
void LossScaling::update(ValueId all_finite) {
  ir::ScalarList list;
  list.inputs = 3;
  const int scale = 0, steps = 1, good = 2;
  const int n = list.add(Scalar::affine, steps, -1, 1, 1);
  const int reached =
      list.add(Scalar::clip, list.add(Scalar::affine, n, -1, 1, 1 - kGoodSteps), -1, 0, 1);
  const int grows = list.add(Scalar::multiply, good, list.add(Scalar::affine, reached, -1, 1, 1));
  const int factor = list.add(Scalar::add, grows, list.add(Scalar::affine, good, -1, -0.5, 0.5));
  const int next = list.add(Scalar::multiply, scale, factor);
  const int counted = list.add(Scalar::multiply, n, list.add(Scalar::affine, reached, -1, -1, 1));
  list.results = {list.add(Scalar::clip, next, -1, kLeast, kMost),
                  list.add(Scalar::multiply, good, counted)};
  const std::vector<ValueId> results =
      ops::elementwise(graph_, std::move(list), {scale_, good_steps_, all_finite});
  graph_.value(results[0]).writes = scale_;
  graph_.value(results[1]).writes = good_steps_;
}

}  // namespace traingraph
