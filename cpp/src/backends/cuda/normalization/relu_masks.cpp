// Replaces a batch norm result that gradients read for its sign alone by a ReLU bit mask, where the
// kernels have one.
#include "backends/cuda/kernel/node_kernel.h"
#include "backends/cuda/normalization/residual_pairs.h"
#include "ir/epilogue.h"

namespace traingraph::cuda {
namespace {

using ir::NodeId;
using ir::Op;
using ir::ValueId;

ir::BatchNormAttributes& attributes_of(ir::Node& node) {
  return std::get<ir::BatchNormAttributes>(node.attributes);
}

// The place among a gradient's inputs of the result whose sign its prologue asks for, or 0.
std::size_t place_of_result(const ir::Node& node) {
  const auto prologue =
      ir::gradient_prologue_of(std::get<ir::BatchNormAttributes>(node.attributes).epilogue);
  if (!prologue || prologue->result <= 0) return 0;
  return ir::BatchNormGradientOperands::prologue(prologue->result);
}

// The same gradient with an operand that is no result in the first place, by which ops are told
// apart.
ir::Node with_result_behind(ir::Node node) {
  ir::ScalarList& list = attributes_of(node).epilogue;
  const auto prologue = ir::gradient_prologue_of(list);
  if (!prologue || prologue->result != 0) return node;
  const int dy = prologue->dy;
  const auto renumber = [dy](int& reg) { reg = reg == 0 ? dy : (reg == dy ? 0 : reg); };
  for (ir::Instruction& code : list.code) {
    renumber(code.x);
    renumber(code.y);
  }
  using Operands = ir::BatchNormGradientOperands;
  std::swap(node.inputs[Operands::dy], node.inputs[Operands::prologue(dy)]);
  return node;
}

// The gradients that are to read the ReLU mask in place of `result`.
std::vector<NodeId> readers_of_relu_mask(const ir::Graph& graph, ValueId result,
                                         const std::vector<NodeId>& readers) {
  std::vector<NodeId> found;
  for (NodeId id : readers) {
    if (graph.node(id).op != Op::batch_norm_gradient) continue;
    const ir::Node node = with_result_behind(graph.node(id));
    const std::size_t place = place_of_result(node);
    if (place == 0 || node.inputs[place] != result || !batch_norm_has_relu_mask(graph, node))
      continue;
    found.push_back(id);
  }
  return found;
}

}  // namespace

ir::Graph with_relu_masks(ir::Graph graph) {
  const auto readers = ir::consumers(graph);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const auto id = static_cast<NodeId>(n);
    if (graph.node(id).op != Op::batch_norm || !batch_norm_has_relu_mask(graph, graph.node(id)))
      continue;
    const ValueId result = graph.node(id).outputs[0];
    const auto to_change =
        readers_of_relu_mask(graph, result, readers[static_cast<std::size_t>(result)]);
    if (to_change.empty()) continue;
    const std::int64_t words = (graph.type(result).elements() + 31) / 32;
    const ValueId relu_mask = graph.add_result(id, {DataType::kUInt8, {words * 4}});
    attributes_of(graph.node(id)).has_relu_mask = true;
    for (NodeId reader : to_change) {
      ir::Node& node = graph.node(reader);
      node = with_result_behind(node);
      node.inputs[place_of_result(node)] = relu_mask;
      attributes_of(node).has_relu_mask = true;
    }
  }
  return graph;
}

}  // namespace traingraph::cuda
