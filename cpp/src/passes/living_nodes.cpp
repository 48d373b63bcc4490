// What fusion asks of the graph that it changes. Each answer is kept up to date, so that none costs
// a walk over all nodes.
#include "passes/living_nodes.h"

#include <algorithm>
#include <numeric>

namespace traingraph::passes {

using ir::kNone;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

LivingNodes::LivingNodes(const ir::Graph& graph)
    : graph_(graph),
      dead_(graph.nodes.size(), false),
      uses_(graph.values.size(), 0),
      readers_(ir::consumers(graph)),
      latest_(graph.nodes.size()) {
  for (const Node& node : graph_.nodes) count(node.inputs, 1);
  std::iota(latest_.begin(), latest_.end(), 0);
}

void LivingNodes::count(const std::vector<ValueId>& inputs, int by) {
  for (ValueId input : inputs) uses_[static_cast<std::size_t>(input)] += by;
}

// A node that waits for nothing as late as the other one does not wait for it.
bool LivingNodes::depends_on(ValueId value, NodeId node) const {
  std::vector<bool> seen;
  std::vector<ValueId> open{value};
  while (!open.empty()) {
    const NodeId producer = graph_.value(open.back()).producer;
    open.pop_back();
    if (producer == node) return true;
    if (producer == kNone || latest_[static_cast<std::size_t>(producer)] < node) continue;
    if (seen.empty()) seen.assign(graph_.nodes.size(), false);
    if (seen[static_cast<std::size_t>(producer)]) continue;
    seen[static_cast<std::size_t>(producer)] = true;
    const std::vector<ValueId>& inputs = graph_.node(producer).inputs;
    open.insert(open.end(), inputs.begin(), inputs.end());
  }
  return false;
}

void LivingNodes::kill(NodeId id) {
  dead_[static_cast<std::size_t>(id)] = true;
  count(graph_.node(id).inputs, -1);
}

void LivingNodes::bury(ValueId value) {
  std::vector<ValueId> open{value};
  while (!open.empty()) {
    const NodeId id = graph_.value(open.back()).producer;
    open.pop_back();
    if (id == kNone || !lives(id)) continue;
    const Node& node = graph_.node(id);
    const bool is_read = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
      const ir::Value& v = graph_.value(output);
      return v.keep || v.writes != kNone || uses(output) > 0;
    });
    if (is_read) continue;
    kill(id);
    open.insert(open.end(), node.inputs.begin(), node.inputs.end());
  }
}

void LivingNodes::note_inputs(NodeId id, const std::vector<ValueId>& before) {
  const std::vector<ValueId>& inputs = graph_.node(id).inputs;
  count(before, -1);
  count(inputs, 1);
  for (ValueId input : inputs) {
    if (std::find(before.begin(), before.end(), input) != before.end()) continue;
    readers_[static_cast<std::size_t>(input)].push_back(id);
  }
}

void LivingNodes::wait_like(NodeId id, NodeId other) {
  raise({id}, latest_[static_cast<std::size_t>(other)]);
}

void LivingNodes::add_result(NodeId id, ValueId value) {
  graph_.node(id).outputs.push_back(value);
  graph_.value(value).producer = id;
  raise(readers_[static_cast<std::size_t>(value)], latest_[static_cast<std::size_t>(id)]);
}

void LivingNodes::raise(std::vector<NodeId> open, NodeId latest) {
  while (!open.empty()) {
    const NodeId next = open.back();
    open.pop_back();
    if (latest_[static_cast<std::size_t>(next)] >= latest) continue;
    latest_[static_cast<std::size_t>(next)] = latest;
    for (ValueId output : graph_.node(next).outputs) {
      const std::vector<NodeId>& readers = readers_[static_cast<std::size_t>(output)];
      open.insert(open.end(), readers.begin(), readers.end());
    }
  }
}

}  // namespace traingraph::passes
