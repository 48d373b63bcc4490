// Orders the nodes: phases apart, or one step in which each update runs as soon as its gradient is
// complete and its parameter is no longer read.
#include <algorithm>

#include "passes/passes.h"

namespace traingraph::passes {
namespace {

using ir::kNone;
using ir::NodeId;
using ir::ValueId;

bool is_update(const ir::Graph& graph, NodeId id) {
  return graph.node(id).phase == ir::Phase::update;
}

// Replaces bytes of a parameter, and no op reads what it gives.
bool writes_unread(const ir::Graph& graph, NodeId id,
                   const std::vector<std::vector<NodeId>>& readers) {
  const std::vector<ValueId>& outputs = graph.node(id).outputs;
  return std::all_of(outputs.begin(), outputs.end(), [&](ValueId output) {
    return graph.value(output).writes != kNone && readers[static_cast<std::size_t>(output)].empty();
  });
}

// A view has no kernel: its result is its source's bytes.
bool is_view(const ir::Node& node) { return node.op == ir::Op::reshape; }

// By node: whether a full step needs it. What only a separate gradient call leaves is left out.
std::vector<bool> needed_for_step(const ir::Graph& graph) {
  std::vector<bool> needed(graph.nodes.size(), false), read(graph.values.size(), false);
  for (std::size_t n = graph.nodes.size(); n-- > 0;) {
    const ir::Node& node = graph.nodes[n];
    needed[n] = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
      const ir::Value& value = graph.value(output);
      return value.keep || value.writes != kNone || read[static_cast<std::size_t>(output)];
    });
    if (!needed[n]) continue;
    for (ValueId input : node.inputs) read[static_cast<std::size_t>(input)] = true;
  }
  return needed;
}

}  // namespace

Schedule schedule(const ir::Graph& graph, bool by_phases, bool sums_go_on) {
  const auto readers = ir::consumers(graph);
  const std::vector<bool> needed = needed_for_step(graph);
  Schedule result;
  std::vector<NodeId> updates;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto id = static_cast<NodeId>(n);
    if (is_view(graph.node(id)) || (!by_phases && !needed[n])) continue;
    if (is_update(graph, id)) {
      updates.push_back(id);
      continue;
    }
    result.order.push_back(id);
    if (graph.node(id).phase == ir::Phase::forward) result.forward_end = result.order.size();
  }
  // In separate calls running statistics change when the rest of the pass is done, so that a pass
  // that is stopped leaves them as they were.
  const auto forward_end =
      result.order.begin() + static_cast<std::ptrdiff_t>(by_phases ? result.forward_end : 0);
  std::stable_partition(result.order.begin(), forward_end,
                        [&](NodeId id) { return !writes_unread(graph, id, readers); });
  result.gradient_end = result.order.size();
  if (by_phases) {
    result.order.insert(result.order.end(), updates.begin(), updates.end());
    return result;
  }

  // Where each update may stand: behind its operands and behind every other reader of what it
  // overwrites. Positions are 2 × order for forward and gradient ops, so that updates fit between.
  std::vector<std::size_t> position(graph.nodes.size(), 0);
  for (std::size_t k = 0; k < result.order.size(); ++k) {
    position[static_cast<std::size_t>(result.order[k])] = k + 1;
  }
  std::vector<std::pair<std::size_t, NodeId>> placed;
  for (std::size_t k = 0; k < result.order.size(); ++k) placed.emplace_back(k + 1, result.order[k]);
  auto root_position = [&](ValueId value) -> std::size_t {
    // Through views to the op that computes the bytes.
    NodeId producer = graph.value(value).producer;
    while (producer != kNone && is_view(graph.node(producer))) {
      producer = graph.value(graph.node(producer).inputs[0]).producer;
    }
    return producer == kNone ? 0 : position[static_cast<std::size_t>(producer)];
  };
  auto last_reader = [&](auto&& self, ValueId value, NodeId except) -> std::size_t {
    std::size_t last = 0;
    for (NodeId reader : readers[static_cast<std::size_t>(value)]) {
      if (reader == except) continue;
      const ir::Node& node = graph.node(reader);
      last = std::max(last, is_view(node) ? self(self, node.outputs[0], except)
                                          : position[static_cast<std::size_t>(reader)]);
    }
    return last;
  };
  std::vector<std::vector<ValueId>> writers(graph.values.size());  // of a parameter
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const ValueId target = graph.values[v].writes;
    if (target != kNone)
      writers[static_cast<std::size_t>(target)].push_back(static_cast<ValueId>(v));
  }
  std::size_t last_sum = 0;
  for (std::size_t k = 0; sums_go_on && k < result.order.size(); ++k) {
    if (may_go_on(graph.node(result.order[k]))) last_sum = k + 1;
  }
  for (NodeId id : updates) {
    std::size_t at = last_sum;
    for (ValueId input : graph.node(id).inputs) at = std::max(at, root_position(input));
    for (ValueId output : graph.node(id).outputs) {
      const ValueId target = graph.value(output).writes;
      if (target == kNone) continue;
      at = std::max(at, last_reader(last_reader, target, id));
      // What an op before has made of it lies there, too.
      for (ValueId earlier : writers[static_cast<std::size_t>(target)]) {
        if (earlier == output) continue;
        at = std::max({at, root_position(earlier), last_reader(last_reader, earlier, id)});
      }
    }
    position[static_cast<std::size_t>(id)] = at;
    placed.emplace_back(at, id);
  }
  std::stable_sort(placed.begin(), placed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  result.order.clear();
  for (const auto& [at, id] : placed) result.order.push_back(id);
  return result;
}

}  // namespace traingraph::passes
