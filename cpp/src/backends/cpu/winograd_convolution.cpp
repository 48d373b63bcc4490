// 3 × 3 convolutions of stride 1 and their gradients by Winograd's method, for activations with
// channels in blocks of a vector: when they are taken, and how operands lie.
#include <utility>

#include <traingraph/errors.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa_select.h"
#include "backends/cpu/matmul_problem.h"
#include "backends/cpu/onednn.h"
#include "backends/cpu/winograd_kernel.h"

namespace traingraph::cpu {
namespace {

using ir::Op;

// Of the weights, activations.
std::pair<ir::Layout, ir::Layout> blocked_layouts() {
  const std::int64_t lanes = loops().winograd->lanes;
  return {{{0, 1, 2, 3}, {{1, lanes}, {0, lanes}}}, {{0, 1, 2, 3}, {{1, lanes}}}};
}

LayoutChoice layouts(const ir::Graph& graph, const ir::Node& node) {
  LayoutChoice choice = plain_layouts(node);
  const auto [weights, activations] = blocked_layouts();
  const ir::ValueId id = winograd_problem_of(graph, node).weights;
  // Inputs of an epilogue stay plain.
  for (std::size_t i = 0; i < 2; ++i) {
    choice.inputs[i] = node.inputs[i] == id ? weights : activations;
  }
  choice.outputs[0] = node.outputs[0] == id ? weights : activations;
  return choice;
}

bool takes_tail(const ir::Graph& graph, const ir::Node& node, const ir::ScalarList& list,
                const std::vector<ir::ValueId>& extra) {
  const std::optional<MatmulTail> tail = matmul_tail_of(list);
  if (!tail || !tail->functions.empty() || extra.size() != (tail->adds ? 1u : 0u)) return false;
  if (!tail->adds) return true;
  const ir::Value& bias = graph.value(extra[0]);
  return bias.type.shape == Shape{1, graph.type(node.inputs[1]).shape[0], 1, 1} &&
         bias.layout.blocks.empty() && bias.type.data_type == graph.type(node.inputs[1]).data_type;
}

bool fuses(const ir::Graph& graph, const ir::Node& node, const ir::ScalarList& list,
           const std::vector<ir::ValueId>& extra) {
  return std::get<ir::ConvolutionAttributes>(node.attributes).epilogue.empty() &&
         takes_tail(graph, node, list, extra);
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (Support s = winograd_takes(graph, node); !s.yes) return s;
  const std::vector<ir::ValueId> extra(node.inputs.begin() + 2, node.inputs.end());
  const ir::ScalarList& list = std::get<ir::ConvolutionAttributes>(node.attributes).epilogue;
  if (!list.empty() && (node.op != Op::convolution || !takes_tail(graph, node, list, extra))) {
    return Support::no("Winograd's method ends with a bias and relu alone");
  }
  return {};
}

bool lies_in_blocks(const ir::Graph& graph, const ir::Node& node) {
  const LayoutChoice wanted = layouts(graph, node);
  const auto same = [&](ir::ValueId id, const ir::Layout& layout) {
    return ir::same_bytes(graph.type(id).shape, graph.value(id).layout, layout);
  };
  return same(node.inputs[0], wanted.inputs[0]) && same(node.inputs[1], wanted.inputs[1]) &&
         same(node.outputs[0], wanted.outputs[0]);
}

// Of a graph that has been given no layouts.
std::unique_ptr<Kernel> make_directly(const ir::Graph& graph, const ir::Node& node) {
  const bool half = ir::is_half(graph.type(node.inputs[0]).data_type);
  for (const KernelEntry& entry : half ? widened_entries() : onednn_entries()) {
    if (entry.op == node.op) return entry.make(graph, node);
  }
  throw InternalError("[cpu] Winograd's method without oneDNN");
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node) {
  if (!lies_in_blocks(graph, node)) return make_directly(graph, node);
  if (node.op == Op::convolution_gradient_weights) {
    return make_winograd_weights(graph, node);
  }
  return make_winograd_result(graph, node);
}

}  // namespace

const std::vector<KernelEntry>& winograd_entries() {
  // Builds without oneDNN compute other convolutions by reference loops, and say so of the op.
  static const std::vector<KernelEntry> none;
  static const std::vector<KernelEntry> entries = {
      {Op::convolution, supports, make, layouts, fuses},
      {Op::convolution_gradient_data, supports, make, layouts, nullptr},
      {Op::convolution_gradient_weights, supports, make, layouts, nullptr},
  };
  return onednn_entries().empty() ? none : entries;
}

}  // namespace traingraph::cpu
