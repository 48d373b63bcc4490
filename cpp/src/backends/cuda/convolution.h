#pragma once

#include "backends/cuda/kernel.h"

// What the two kinds of convolution kernels share.
namespace traingraph::cuda {

// x (N, C, H, W), weights (O, C / groups, kh, kw), y (N, O, P, Q) of any of the three ops.
struct ConvolutionShapes {
  Shape x, weights, y;

  ConvolutionShapes(const ir::Graph& graph, const ir::Node& node);
};

// Multiplications of a pass.
double products_of(const ir::Node& node, const ConvolutionShapes& shapes);

// Of a copy in a workspace, in whole steps of 256, so that what follows is aligned.
inline std::size_t bytes_of_copy(const Shape& shape, std::size_t element_bytes) {
  return (static_cast<std::size_t>(element_count(shape)) * element_bytes + 255) / 256 * 256;
}

// Own loops, for every case.
std::unique_ptr<Kernel> make_direct_convolution(const ir::Graph& graph, const ir::Node& node,
                                                const Context& context);

// Planes of one size put into planes of another, the source's first element at (top, left): zeros
// around it where the target is larger, cut where `top` and `left` are below 0.
struct Frame {
  std::int64_t planes, from_rows, from_columns, to_rows, to_columns, top, left;

  // From the target to the source.
  Frame back() const { return {planes, to_rows, to_columns, from_rows, from_columns, -top, -left}; }
};

void enqueue_frame(std::size_t element_bytes, const Frame& frame, const void* from, void* to,
                   cudaStream_t stream);

}  // namespace traingraph::cuda
