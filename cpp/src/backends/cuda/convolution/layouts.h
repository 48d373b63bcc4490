#pragma once

#include "ir/graph.h"
#include "runtime/kernel.h"

// Preferred layouts. Tensor cores read tensors with the channel innermost; ops between two
// convolutions accept the layout that they are given.
namespace traingraph::cuda {

// Whether a convolution or one of its adjoints runs on tensor cores.
bool uses_tensor_cores(const ir::Graph& graph, const ir::Node& node);

// Channels last on tensor cores, except x and the weights under space-to-depth; otherwise plain.
LayoutChoice convolution_layouts(const ir::Graph& graph, const ir::Node& node);

// Operands of the first result's rank take the layout of the largest channels-last operand, or
// plain if there is none. Other operands keep their layout.
LayoutChoice layouts_as_given(const ir::Graph& graph, const ir::Node& node);

// The same, but tensors of 16 bits are always channels last.
LayoutChoice normalization_layouts(const ir::Graph& graph, const ir::Node& node);

// The extents in memory order, outermost first. A shape of fewer axes gets leading extents of 1.
// The layout has no blocks.
Shape physical_shape(const Shape& shape, const ir::Layout& layout);

}  // namespace traingraph::cuda
