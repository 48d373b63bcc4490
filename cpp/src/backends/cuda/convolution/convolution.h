#pragma once

#include "backends/cuda/kernel/kernel.h"

// Shared by the cuDNN and the hand-written convolutions.
namespace traingraph::cuda {

// x (N, C, H, W), weights (O, C / groups, kh, kw), y (N, O, P, Q) of any of the three ops.
struct ConvolutionShapes {
  Shape x, weights, y;

  ConvolutionShapes(const ir::Graph& graph, const ir::Node& node);
};

// Multiplications of one pass.
double products_of(const ir::Node& node, const ConvolutionShapes& shapes);

// Bytes of a copy in a workspace. Rounded up to 256, so that the next copy is aligned.
inline std::size_t bytes_of_copy(const Shape& shape, std::size_t element_bytes) {
  return (static_cast<std::size_t>(element_count(shape)) * element_bytes + 255) / 256 * 256;
}

// The hand-written kernel, which takes every case.
std::unique_ptr<Kernel> make_direct_convolution(const ir::Graph& graph, const ir::Node& node,
                                                const Context& context);

// Copies planes of one size into planes of another. The source's first element goes to (top, left).
// A larger target is filled with zeros; negative `top` and `left` crop the source.
struct Frame {
  std::int64_t planes, from_rows, from_columns, to_rows, to_columns, top, left;

  // The inverse copy, from the target to the source.
  Frame back() const { return {planes, to_rows, to_columns, from_rows, from_columns, -top, -left}; }
};

void enqueue_frame(std::size_t element_bytes, const Frame& frame, const void* from, void* to,
                   cudaStream_t stream);

}  // namespace traingraph::cuda
