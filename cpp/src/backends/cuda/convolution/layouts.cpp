// The preferred layouts of convolutions, and of the ops between them, on this backend.
#include "backends/cuda/convolution/layouts.h"

#include <algorithm>

#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/convolution/space_to_depth.h"
#include "runtime/table_backend.h"

namespace traingraph::cuda {
namespace {

// Below so many products, hand-written kernels on plain tensors are as fast, and no tensor needs a
// reorder.
constexpr double kLeastForTensorCores = 1 << 28;

bool is_channels_last(const ir::Layout& layout) { return !layout.plain() && layout.blocks.empty(); }

LayoutChoice same_for_rank(const ir::Graph& graph, const ir::Node& node, ir::Layout layout) {
  const auto rank = static_cast<std::size_t>(graph.type(node.outputs[0]).rank());
  for (ir::ValueId id : node.inputs) {
    const Shape& shape = graph.type(id).shape;
    Shape padded(rank - std::min(rank, shape.size()), 1);
    padded.insert(padded.end(), shape.begin(), shape.end());
    // An operand of fewer axes cannot take another layout.
    if (shape.size() < rank && !ir::same_bytes(padded, layout, {})) layout = {};
  }
  auto chosen = [&](ir::ValueId id) {
    return graph.type(id).shape.size() == rank ? layout : graph.value(id).layout;
  };
  LayoutChoice choice;
  for (ir::ValueId id : node.inputs) choice.inputs.push_back(chosen(id));
  for (ir::ValueId id : node.outputs) choice.outputs.push_back(chosen(id));
  return choice;
}

}  // namespace

bool uses_tensor_cores(const ir::Graph& graph, const ir::Node& node) {
  const DataType type = graph.type(node.inputs[0]).data_type;
  if (ir::is_half(type)) return true;
  const bool tf32 = std::get<ir::ConvolutionAttributes>(node.attributes).tf32;
  return tf32 && type == DataType::kFloat32 &&
         products_of(node, ConvolutionShapes(graph, node)) >= kLeastForTensorCores;
}

LayoutChoice convolution_layouts(const ir::Graph& graph, const ir::Node& node) {
  LayoutChoice choice = plain_layouts(node);
  if (!uses_tensor_cores(graph, node)) return choice;
  std::fill(choice.inputs.begin(), choice.inputs.end(), ir::channels_last(4));
  std::fill(choice.outputs.begin(), choice.outputs.end(), ir::channels_last(4));
  if (uses_space_to_depth(graph, node)) {
    const bool forward = node.op == ir::Op::convolution;
    choice.inputs[forward ? 0 : 1] = {};                    // x
    (forward ? choice.inputs[1] : choice.outputs[0]) = {};  // weights
  }
  return choice;
}

LayoutChoice layouts_as_given(const ir::Graph& graph, const ir::Node& node) {
  const ir::Type& result = graph.type(node.outputs[0]);
  ir::Layout layout;
  std::int64_t most = 0;  // elements of the largest channels-last operand so far
  for (ir::ValueId id : node.inputs) {
    const ir::Type& type = graph.type(id);
    if (type.rank() != result.rank() || type.elements() <= most) continue;
    if (!is_channels_last(graph.value(id).layout)) continue;
    layout = graph.value(id).layout;
    most = type.elements();
  }
  return same_for_rank(graph, node, layout);
}

LayoutChoice normalization_layouts(const ir::Graph& graph, const ir::Node& node) {
  const ir::Type& type = graph.type(node.inputs[0]);
  if (!ir::is_half(type.data_type)) return layouts_as_given(graph, node);
  return same_for_rank(graph, node, ir::channels_last(type.rank()));
}

Shape physical_shape(const Shape& shape, const ir::Layout& layout) {
  if (layout.plain()) return shape;
  const std::size_t missing = layout.order.size() - shape.size();
  Shape result;
  for (int axis : layout.order) {
    const auto at = static_cast<std::size_t>(axis);
    result.push_back(at < missing ? 1 : shape[at - missing]);
  }
  return result;
}

}  // namespace traingraph::cuda
