// Common-subexpression elimination: ops with equal operands and attributes are computed once.
#include <algorithm>
#include <map>
#include <utility>

#include "passes/passes.h"

namespace traingraph::passes {

using ir::ValueId;

std::vector<ValueId> join_equal_nodes(ir::Graph& graph) {
  std::vector<ValueId> instead(graph.values.size());
  for (std::size_t v = 0; v < instead.size(); ++v) instead[v] = static_cast<ValueId>(v);
  std::map<std::pair<ir::Op, std::vector<ValueId>>, std::vector<ir::NodeId>> known;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    ir::Node& node = graph.nodes[n];
    for (ValueId& input : node.inputs) input = instead[static_cast<std::size_t>(input)];
    std::vector<ir::NodeId>& candidates = known[{node.op, node.inputs}];
    const auto equal = std::find_if(candidates.begin(), candidates.end(), [&](ir::NodeId id) {
      const ir::Node& other = graph.node(id);
      if (other.attributes != node.attributes) return false;
      for (std::size_t k = 0; k < node.outputs.size(); ++k) {
        if (!(graph.type(node.outputs[k]) == graph.type(other.outputs[k]))) return false;
      }
      return true;
    });
    if (equal == candidates.end()) {
      candidates.push_back(static_cast<ir::NodeId>(n));
      continue;
    }
    const ir::Node& kept = graph.node(*equal);
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      instead[static_cast<std::size_t>(node.outputs[k])] = kept.outputs[k];
    }
  }
  return instead;
}

}  // namespace traingraph::passes
