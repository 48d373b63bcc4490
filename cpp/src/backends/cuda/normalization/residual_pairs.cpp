// Joins residual batch norm pairs, whose results are added: one op normalizes both, and one gives
// both gradients.
#include "backends/cuda/normalization/residual_pairs.h"

#include <utility>

#include "backends/cuda/kernel/node_kernel.h"
#include "ir/epilogue.h"

namespace traingraph::cuda {
namespace {

using ir::kNone;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::ValueId;

const ir::BatchNormAttributes& attributes_of(const Node& node) {
  return std::get<ir::BatchNormAttributes>(node.attributes);
}

// The batch norm whose result alone this one adds to its own before relu, where nobody else reads
// that; or kNone.
NodeId added_by(const ir::Graph& graph, NodeId id,
                const std::vector<std::vector<NodeId>>& readers) {
  const Node& node = graph.node(id);
  if (node.op != Op::batch_norm) return kNone;
  const auto epilogue = ir::add_relu_epilogue_of(attributes_of(node).epilogue);
  if (!epilogue || !epilogue->adds) return kNone;
  const ValueId added = node.inputs[ir::BatchNormOperands::epilogue(1)];
  const NodeId other = graph.value(added).producer;
  if (other == kNone || graph.node(other).op != Op::batch_norm) return kNone;
  const auto& attributes = attributes_of(graph.node(other));
  const bool plain =
      attributes.epilogue.empty() && attributes.coefficients == ir::Coefficients::inside;
  const bool read_here_alone = readers[static_cast<std::size_t>(added)].size() == 1;
  if (!plain || !read_here_alone || graph.value(added).keep) return kNone;
  return graph.node(other).outputs[0] == added ? other : kNone;
}

// Leaves the second batch norm its statistics, and gives the first its x and coefficients.
void normalize_together(ir::Graph& graph, NodeId id, NodeId other) {
  const ir::Type& mean = graph.type(graph.node(other).outputs[1]);
  const ValueId coefficients = graph.add_result(other, {mean.data_type, {mean.shape[0], 4}, false});
  Node& alone = graph.node(other);
  alone.outputs.erase(alone.outputs.begin());
  std::get<ir::BatchNormAttributes>(alone.attributes).coefficients = ir::Coefficients::alone;
  Node& node = graph.node(id);
  using Operands = ir::BatchNormOperands;
  node.inputs[Operands::added_x] = alone.inputs[Operands::x];
  node.inputs.insert(node.inputs.begin() + Operands::added_coefficients, coefficients);
  std::get<ir::BatchNormAttributes>(node.attributes).adds_normalized = true;
}

// The one op that reads the sum which this gradient gives, where it is the gradient of a batch norm
// that reads nothing else of the gradient phase; or kNone.
NodeId paired_with(const ir::Graph& graph, NodeId id,
                   const std::vector<std::vector<NodeId>>& readers) {
  const Node& node = graph.node(id);
  if (node.op != Op::batch_norm_gradient) return kNone;
  if (!attributes_of(node).has_relu_mask || !attributes_of(node).gives_prologue) return kNone;
  const ValueId sum = node.outputs[3];
  const std::vector<NodeId>& of_sum = readers[static_cast<std::size_t>(sum)];
  if (graph.value(sum).keep || of_sum.size() != 1) return kNone;
  const Node& paired = graph.node(of_sum[0]);
  if (paired.op != Op::batch_norm_gradient || paired.phase != node.phase) return kNone;
  if (!attributes_of(paired).epilogue.empty() || paired.inputs[0] != sum) return kNone;
  for (std::size_t i = 1; i < paired.inputs.size(); ++i) {
    if (graph.value(paired.inputs[i]).producer >= id) return kNone;
  }
  return of_sum[0];
}

Node joined(Node node, const Node& paired) {
  std::get<ir::BatchNormAttributes>(node.attributes).has_residual_pair = true;
  node.inputs.insert(node.inputs.end(), paired.inputs.begin() + 1, paired.inputs.end());
  node.outputs.insert(node.outputs.end(), paired.outputs.begin(), paired.outputs.end());
  return node;
}

}  // namespace

ir::Graph with_residual_pairs(const ir::Graph& graph, const Backend& backend) {
  const auto readers = ir::consumers(graph);
  ir::Graph result = graph;
  std::vector<bool> gone(graph.nodes.size(), false);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto id = static_cast<NodeId>(n);
    const NodeId added = added_by(graph, id, readers);
    if (added != kNone && batch_norm_has_relu_mask(graph, graph.node(id))) {
      normalize_together(result, id, added);
    }
    const NodeId paired = paired_with(graph, id, readers);
    if (paired == kNone) continue;
    Node both = joined(graph.node(id), graph.node(paired));
    if (!backend.supports(graph, both).yes) continue;
    for (ValueId output : both.outputs) result.value(output).producer = id;
    result.node(id) = std::move(both);
    gone[static_cast<std::size_t>(paired)] = true;
  }
  return ir::without_nodes(result, gone);
}

}  // namespace traingraph::cuda
