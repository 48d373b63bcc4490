#pragma once

#include "ir/graph.h"
#include "runtime/kernel.h"

// Which layouts the kernels want: tensor cores read tensors with the channel innermost, and what
// stands between two convolutions takes what it is given.
namespace traingraph::cuda {

// Whether a convolution or one of its adjoints runs on tensor cores.
bool uses_tensor_cores(const ir::Graph& graph, const ir::Node& node);

// Channels last where tensor cores run, but for sources of few channels and their weights; else
// plain.
LayoutChoice convolution_layouts(const ir::Graph& graph, const ir::Node& node);

// Every operand of the first result's rank as the first of them that is channels last, or plain
// where none is; others as they are.
LayoutChoice layouts_as_given(const ir::Graph& graph, const ir::Node& node);

// The same, but channels last for tensors of 16 bits in any case.
LayoutChoice normalization_layouts(const ir::Graph& graph, const ir::Node& node);

// The extents in the order of the memory, outermost first; a shape of fewer axes is seen with
// extents of 1 before it. The layout has no blocks.
Shape physical_shape(const Shape& shape, const ir::Layout& layout);

}  // namespace traingraph::cuda
