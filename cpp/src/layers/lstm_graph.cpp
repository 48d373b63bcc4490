// Ops of one LSTM layer and direction: the product with the input weights, and the op lstm.
#include "layers/lstm_graph.h"

namespace traingraph {
namespace {

using ir::kNone;
using ir::ValueId;

// W x + b of all steps: (N, T, 4H).
ValueId projected(Emitter& e, const Sequences& s, ValueId x, const LSTMWeights& weights) {
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

LSTMResults lstm_direction(Emitter& e, const Sequences& s, ValueId x, const LSTMWeights& weights,
                           const std::vector<ValueId>& states,
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

}  // namespace traingraph
