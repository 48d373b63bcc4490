// Reverse-mode differentiation: walks the nodes backwards, applies their gradient rules, and sums
// gradients of values with several readers.
#include <unordered_map>
#include <unordered_set>

#include "ops/emit.h"
#include "passes/passes.h"
#include "runtime/threads/interruption.h"

namespace traingraph::passes {

using ir::kNone;
using ir::NodeId;
using ir::ValueId;

std::vector<ValueId> autodiff(ir::Graph& graph, const std::vector<Seed>& seeds,
                              const std::vector<ValueId>& wanted, const std::vector<bool>& stopped,
                              NodeId first) {
  const auto first_node = static_cast<std::size_t>(first);
  const std::size_t node_count = graph.nodes.size();
  auto is_stopped = [&](ValueId v) {
    return static_cast<std::size_t>(v) < stopped.size() && stopped[static_cast<std::size_t>(v)];
  };

  // Sets and maps, because a few nodes may stand at the end of many.
  // active: a wanted value can be reached backwards from here.
  std::unordered_set<ValueId> active(wanted.begin(), wanted.end());
  for (std::size_t n = first_node; n < node_count; ++n) {
    const ir::Node& node = graph.nodes[n];
    if (ops::definition(node.op).gradient == nullptr) continue;
    bool reaches = false;
    for (ValueId input : node.inputs) {
      reaches = reaches || (active.contains(input) && !is_stopped(input));
    }
    if (reaches) active.insert(node.outputs.begin(), node.outputs.end());
  }

  std::unordered_map<ValueId, ValueId> gradient;
  auto gradient_of = [&](ValueId value) {
    const auto found = gradient.find(value);
    return found == gradient.end() ? kNone : found->second;
  };
  graph.phase = ir::Phase::gradient;
  auto accumulate = [&](ValueId value, ValueId part) {
    const auto [place, is_first] = gradient.try_emplace(value, part);
    if (is_first) return;
    ValueId& slot = place->second;
    // Parts of one value, as of a split, lie beside each other and need no sum.
    const ValueId whole = ops::beside(graph, slot, part);
    // Sums of 16 bits are float32, so that a gradient of many parts is rounded once.
    if (whole == kNone && ir::is_half(graph.type(slot).data_type)) {
      slot = ops::cast(graph, slot, DataType::kFloat32);
    }
    slot = whole != kNone ? whole : ops::binary(graph, ir::Scalar::add, slot, part);
  };
  for (const Seed& seed : seeds) accumulate(seed.value, seed.gradient);

  for (std::size_t n = node_count; n-- > first_node;) {
    check_compilation();
    const ir::Op op = graph.nodes[n].op;
    const ops::Definition& definition = ops::definition(op);
    if (definition.gradient == nullptr) continue;
    std::vector<ValueId> result_gradients;
    bool flows = false;
    for (ValueId output : graph.nodes[n].outputs) {
      ValueId g = is_stopped(output) ? kNone : gradient_of(output);
      result_gradients.push_back(g);
      flows = flows || (g != kNone && active.contains(output));
    }
    if (!flows) continue;
    std::vector<bool> wants;
    for (ValueId input : graph.nodes[n].inputs) {
      wants.push_back(active.contains(input) && !is_stopped(input) &&
                      is_floating_point(graph.type(input).data_type));
    }
    graph.layer = graph.nodes[n].layer;
    const std::size_t first_new = graph.nodes.size();
    ops::Gradient rule(graph, static_cast<NodeId>(n), std::move(result_gradients), wants);
    definition.gradient(rule);
    for (std::size_t k = first_new; k < graph.nodes.size(); ++k) {
      graph.nodes[k].pair = static_cast<int>(n);
    }
    graph.nodes[n].pair = static_cast<int>(n);
    for (std::size_t i = 0; i < rule.gradients.size(); ++i) {
      if (rule.gradients[i] != kNone) accumulate(rule.node.inputs[i], rule.gradients[i]);
    }
  }

  std::vector<ValueId> result;
  for (ValueId v : wanted) result.push_back(gradient_of(v));
  graph.layer = kNone;
  return result;
}

}  // namespace traingraph::passes
