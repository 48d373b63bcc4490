// Gives random ops of a step's micro-batches a counter of their own where rows cannot tell them
// apart.
#include "graph/lowering/micro_batch_draws.h"

#include <algorithm>

namespace traingraph {

using ir::ValueId;

std::vector<bool> values_of_data(const ir::Graph& graph) {
  std::vector<bool> result(graph.values.size());
  for (std::size_t v = 0; v < result.size(); ++v) {
    result[v] = graph.values[v].source == ir::Source::bound;
  }
  for (const ir::Node& node : graph.nodes) {
    const bool reads = std::ranges::any_of(
        node.inputs, [&](ValueId input) { return result[static_cast<std::size_t>(input)]; });
    for (ValueId output : node.outputs) result[static_cast<std::size_t>(output)] = reads;
  }
  return result;
}

void draw_by_micro_batch(Lowering& lowering) {
  ir::Graph& graph = lowering.graph;
  const auto counter = lowering.step_values.find(ir::StepInput::counter);
  if (counter == lowering.step_values.end()) return;
  if (lowering.declared_batch != 0 && graph.fixed_batch.empty()) return;
  const ValueId shared = counter->second;
  const auto rows = lowering.step_values.find(ir::StepInput::first_row);
  const std::vector<bool> of_data = values_of_data(graph);
  for (ir::Node& node : graph.nodes) {
    const auto reads = [&](ValueId value) { return std::ranges::count(node.inputs, value) > 0; };
    const bool has_rows = rows != lowering.step_values.end() && reads(rows->second);
    const bool computes = std::ranges::any_of(
        node.outputs, [&](ValueId output) { return of_data[static_cast<std::size_t>(output)]; });
    if (!reads(shared) || has_rows || !computes) continue;
    std::ranges::replace(node.inputs, shared, lowering.step(ir::StepInput::own_counter));
  }
}

}  // namespace traingraph
