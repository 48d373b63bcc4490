#include "graph/integer_ranges.h"

#include <algorithm>

#include "graph/lowering.h"

namespace traingraph {
namespace {

using ir::kNone;
using ir::ValueId;

// The caller's array that reshapes show.
ValueId behind_reshapes(const ir::Graph& graph, ValueId value) {
  while (graph.value(value).producer != kNone &&
         graph.node(graph.value(value).producer).op == ir::Op::reshape) {
    value = graph.node(graph.value(value).producer).inputs[0];
  }
  return value;
}

// Several uses of one tensor leave what they have in common.
void restrict_to(LoweredGraph& lowered, IntegerRange range, ValueId integers) {
  const ir::Graph& graph = lowered.lowering.graph;
  const ir::Value& value = graph.value(behind_reshapes(graph, integers));
  if (is_floating_point(value.type.data_type) || value.slot == kNone) return;
  const auto slot = static_cast<std::size_t>(value.slot);
  IntegerRange& known =
      value.source == ir::Source::bound ? lowered.bound[slot].range : lowered.slots[slot].range;
  if (known.count != 0) {
    range = {std::max(known.lowest, range.lowest), std::min(known.count, range.count),
             known.descends || range.descends};
  }
  known = range;
}

}  // namespace

void find_integer_ranges(LoweredGraph& lowered) {
  const ir::Graph& graph = lowered.lowering.graph;
  for (const ir::Node& node : graph.nodes) {
    const auto extent = [&](ValueId value, int axis) {
      return graph.type(value).shape[static_cast<std::size_t>(axis)];
    };
    if (node.op == ir::Op::softmax_cross_entropy) {
      restrict_to(lowered, {-1, extent(node.inputs[0], 1)}, node.inputs[1]);
    } else if (node.op == ir::Op::one_hot) {
      restrict_to(lowered, {-1, extent(node.outputs[0], 1)}, node.inputs[0]);
    } else if (node.op == ir::Op::gather) {
      const int axis = std::get<ir::AxisAttributes>(node.attributes).axis;
      restrict_to(lowered, {0, extent(node.inputs[0], axis)}, node.inputs[1]);
    } else if (node.op == ir::Op::scatter) {
      const int axis = std::get<ir::ScatterAttributes>(node.attributes).axis;
      restrict_to(lowered, {0, extent(node.outputs[0], axis)}, node.inputs[1]);
    } else if (node.op == ir::Op::lstm) {
      const auto& a = std::get<ir::LstmAttributes>(node.attributes);
      if (!a.has_lengths) continue;
      const auto lengths = static_cast<std::size_t>(ir::LstmOperands::of_forward(a).lengths);
      restrict_to(lowered, {0, extent(node.inputs[0], a.time_first ? 0 : 1) + 1, true},
                  node.inputs[lengths]);
    }
  }
}

}  // namespace traingraph
