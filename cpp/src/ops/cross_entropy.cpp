// Softmax cross entropy over axis 1 and its gradient, for labels that are distributions or integer
// classes.
#include "ops/emit.h"

namespace traingraph::ops {
namespace {

using ir::CrossEntropyAttributes;
using ir::Type;
using ir::ValueId;

// (N, K, …) with the class axis reduced to extent 1.
Shape per_position(const Shape& logits) {
  Shape shape = logits;
  shape[1] = 1;
  return shape;
}

// Labels: a distribution (N, K, …) or integer classes (N, 1, …).
void check_labels(const Inference& in, const Type& logits, const Type& labels) {
  if (logits.rank() < 2) {
    in.fail("expected logits (N, K, …) but got " + to_string(logits.shape));
  }
  const bool distribution = is_floating_point(labels.data_type);
  const Shape expected = distribution ? logits.shape : per_position(logits.shape);
  if (labels.shape != expected) {
    in.fail("expected labels " + to_string(expected) + " but got " + to_string(labels.shape));
  }
}

// logits, labels → loss, log Σ e^(x - max x), both (N, 1, …).
std::vector<Type> infer(const Inference& in) {
  in.expect_inputs(2, 2);
  const Type& logits = in.type(0);
  check_labels(in, logits, in.type(1));
  if (logits.batched != in.type(1).batched) in.fix_batch();
  const Type result{logits.data_type, per_position(logits.shape), logits.batched};
  return {result, result};
}

// The logits' gradient is an op of its own. With t' = t (1 - s) + s / K and
// l = -Σ t' log softmax x, a label's is -(1 - s) log softmax x.
void gradient(Gradient& g) {
  const ValueId dloss = g.result_gradient(0);
  if (dloss == ir::kNone) return;
  const auto& a = g.get<CrossEntropyAttributes>();
  if (g.wants(0)) {
    g.set(0, apply1(g.graph, ir::Op::softmax_cross_entropy_gradient, a,
                    {dloss, g.input(0), g.input(1), g.result(1)}));
  }
  if (g.wants(1)) {
    const ValueId logarithms =
        apply1(g.graph, ir::Op::softmax, ir::SoftmaxAttributes{true, 1}, {g.input(0)});
    ir::ScalarList list{2, {}, {}};
    const int product = list.add(ir::Scalar::multiply, 0, 1);
    list.results = {list.add(ir::Scalar::scale, product, -1, a.smoothing - 1)};
    g.set(1, elementwise(g.graph, std::move(list), {dloss, logarithms})[0]);
  }
}

// dloss (N, 1, …), logits, labels, logarithm (N, 1, …) → dlogits.
std::vector<Type> infer_gradient(const Inference& in) {
  in.expect_inputs(4, 4);
  const Type& logits = in.type(1);
  check_labels(in, logits, in.type(2));
  const Shape expected = per_position(logits.shape);
  for (std::size_t i : {0, 3}) {
    if (in.type(i).shape != expected) {
      in.fail("expected one value per position " + to_string(expected) + " but got " +
              to_string(in.type(i).shape));
    }
  }
  return {logits};
}

IntegerUse classes(const ir::Graph& graph, const ir::Node& node) {
  return {node.inputs[1], -1, graph.type(node.inputs[0]).shape[1]};
}

}  // namespace

const Definition softmax_cross_entropy_definition{infer, gradient, {.integers = classes}};
const Definition softmax_cross_entropy_gradient_definition{infer_gradient, nullptr};

}  // namespace traingraph::ops
