// Ops of one LSTM layer and direction: the product with the input weights, the op lstm, and
// sequences of different lengths.
#include "layers/lstm_graph.h"

#include <numeric>

namespace traingraph {
namespace {

using ir::kNone;
using ir::ValueId;

// As many numbers that count from `first`.
ValueId counted(Emitter& e, DataType type, Shape shape, std::int64_t first) {
  std::vector<double> numbers(static_cast<std::size_t>(element_count(shape)));
  std::iota(numbers.begin(), numbers.end(), static_cast<double>(first));
  return ops::constant(e.graph, ir::Type{type, std::move(shape), false}, std::move(numbers));
}

// (N, T, 1): whether a step, counted from `first`, compares so with its sequence's length. Both are
// floating-point numbers less the longest length and 1, so that a length outside, for which 0 is
// picked, is behind every step: NaN stays there.
ValueId steps_that(Emitter& e, const LSTMSequences& s, DataType type, ir::Comparison comparison,
                   std::int64_t first) {
  const std::int64_t least = -s.steps - 1;
  const Shape along = s.time_first ? Shape{s.steps, 1, 1} : Shape{1, s.steps, 1};
  const Shape across = s.time_first ? Shape{1, s.sequences, 1} : Shape{s.sequences, 1, 1};
  const bool batched = e.graph.type(s.lengths).batched && !s.time_first;
  const ValueId table = counted(e, type, {s.steps + 1}, least);
  const ValueId picked =
      ops::apply1(e.graph, ir::Op::gather, ir::AxisAttributes{0}, {table, s.lengths});
  const ValueId lengths = ops::reshape(e.graph, picked, across, batched);
  const ValueId steps = counted(e, type, along, first + least);
  return ops::apply1(e.graph, ir::Op::compare, ir::CompareAttributes{comparison}, {steps, lengths});
}

ValueId where(Emitter& e, ValueId condition, ValueId x) {
  return ops::apply1(e.graph, ir::Op::select, ir::SelectAttributes{}, {condition, x});
}

// W x + b of all steps: (N, T, 4H).
ValueId projected(Emitter& e, const LSTMSequences& s, ValueId x, const LSTMWeights& weights) {
  const ir::Type type = e.graph.type(x);
  const std::int64_t width = e.graph.type(weights.input).shape[0];
  // Rows follow the batch only where sequences do.
  const bool batched = type.batched && !s.time_first;
  const ValueId rows = ops::reshape(e.graph, x, {s.sequences * s.steps, type.shape[2]}, batched);
  ValueId y = ops::matmul(e.graph, rows, weights.input, false, true);
  if (weights.biases != kNone) y = ops::binary(e.graph, ir::Scalar::add, y, weights.biases);
  return ops::reshape(e.graph, y, {type.shape[0], type.shape[1], width}, batched);
}

}  // namespace

LSTMResults lstm_direction(Emitter& e, const LSTMSequences& s, ValueId x,
                           const LSTMWeights& weights, const std::vector<ValueId>& states,
                           const std::vector<ir::ScalarList>& activations, bool reverse) {
  ir::LstmAttributes attributes;
  attributes.time_first = s.time_first;
  attributes.reverse = reverse;
  attributes.has_states = !states.empty();
  attributes.has_peepholes = weights.peepholes != kNone;
  attributes.has_lengths = s.lengths != kNone;
  attributes.keeps = e.training();
  attributes.activations = activations;
  std::vector<ValueId> inputs{projected(e, s, x, weights), weights.hidden};
  inputs.insert(inputs.end(), states.begin(), states.end());
  for (ValueId given : {weights.peepholes, s.lengths}) {
    if (given != kNone) inputs.push_back(given);
  }
  const ir::NodeId node =
      ops::apply(e.graph, ir::Op::lstm, std::move(attributes), std::move(inputs));
  const std::vector<ValueId>& results = e.graph.node(node).outputs;
  return {results[0], results[1], results[2]};
}

ValueId without_padding(Emitter& e, const LSTMSequences& s, ValueId x) {
  if (s.lengths == kNone) return x;
  return where(e, steps_that(e, s, e.graph.type(x).data_type, ir::Comparison::less, 0), x);
}

ValueId last_steps(Emitter& e, const LSTMSequences& s, ValueId x) {
  if (s.lengths == kNone) {
    return ops::apply1(e.graph, ir::Op::slice, ir::SliceAttributes{s.time_axis(), s.steps - 1, 1},
                       {x});
  }
  const ValueId last =
      where(e, steps_that(e, s, e.graph.type(x).data_type, ir::Comparison::equal, 1), x);
  return ops::reduce(e.graph, ir::ReduceKind::sum, last, {s.time_axis()});
}

}  // namespace traingraph
