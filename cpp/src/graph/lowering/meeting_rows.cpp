// Looks for ops whose result for one row of the batch depends on other rows.
#include "graph/lowering/meeting_rows.h"

#include <algorithm>

namespace traingraph {
namespace {

using ir::ValueId;

// Rows that repeat a real one change nothing: neither which indices there are nor the first that is
// outside.
bool looks_at_indices(ir::Op op) { return op == ir::Op::check_indices || op == ir::Op::limit_rows; }

bool counts_rows(const ir::Node& node) {
  const auto* norm = std::get_if<ir::BatchNormAttributes>(&node.attributes);
  return norm != nullptr && norm->counts_rows;
}

// Its gradient counts the picks of each row of the table.
bool counts_picks(const ir::Node& node) {
  const auto* embedding = std::get_if<ir::EmbeddingAttributes>(&node.attributes);
  return embedding != nullptr && embedding->by_frequency;
}

}  // namespace

// An op that moves or merges the batch has fixed it. Of the others, those that keep it on axis 0
// compute row by row.
std::string where_rows_meet(const Lowering& lowering) {
  const ir::Graph& graph = lowering.graph;
  if (!graph.fixed_batch.empty()) return graph.fixed_batch;
  const auto has_rows = [&](ValueId value) { return graph.type(value).batched; };
  for (const ir::Node& node : graph.nodes) {
    if (std::ranges::none_of(node.inputs, has_rows) || looks_at_indices(node.op)) continue;
    const bool by_rows = std::ranges::all_of(node.outputs, has_rows) && !counts_picks(node);
    const bool sums_real = node.op == ir::Op::reduce && lowering.zeroed.contains(node.inputs[0]);
    if (by_rows || sums_real || counts_rows(node)) continue;
    return node.layer == ir::kNone ? ir::name(node.op)
                                   : graph.layers[static_cast<std::size_t>(node.layer)];
  }
  return "";
}

}  // namespace traingraph
