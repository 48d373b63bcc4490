#include "passes/passes.h"

namespace traingraph::passes {

using ir::kNone;
using ir::ValueId;

ir::Graph without_dead_nodes(const ir::Graph& graph, std::vector<ValueId>& values) {
  std::vector<bool> live(graph.values.size(), false);
  std::vector<bool> runs(graph.nodes.size(), false);
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    live[v] = graph.values[v].keep || graph.values[v].writes != kNone;
  }
  for (std::size_t n = graph.nodes.size(); n-- > 0;) {
    for (ValueId output : graph.nodes[n].outputs) {
      runs[n] = runs[n] || live[static_cast<std::size_t>(output)];
    }
    if (!runs[n]) continue;
    for (ValueId input : graph.nodes[n].inputs) live[static_cast<std::size_t>(input)] = true;
  }

  ir::Graph result;
  result.layers = graph.layers;
  values.assign(graph.values.size(), kNone);
  auto add_value = [&](ValueId old) {
    ValueId& number = values[static_cast<std::size_t>(old)];
    if (number == kNone) {
      result.values.push_back(graph.value(old));
      number = static_cast<ValueId>(result.values.size()) - 1;
    }
    return number;
  };
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].source != ir::Source::node) add_value(static_cast<ValueId>(v));
  }
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!runs[n]) continue;
    ir::Node node = graph.nodes[n];
    for (ValueId& input : node.inputs) input = add_value(input);
    for (ValueId& output : node.outputs) output = add_value(output);
    result.append(std::move(node));
  }
  for (ir::Value& value : result.values) {
    if (value.writes != kNone) value.writes = values[static_cast<std::size_t>(value.writes)];
  }
  return result;
}

}  // namespace traingraph::passes
