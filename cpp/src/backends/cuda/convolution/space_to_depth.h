#pragma once

#include "backends/cuda/convolution/convolution.h"

// Space-to-depth: a strided convolution of few channels becomes one of stride 1 over more channels,
// which suits tensor cores. Images at the start of a network are such sources. If all taps together
// give few channels, each tap becomes a channel and the convolution a matrix product, as with
// im2col. Otherwise the s × s elements of one stride become channels. With t = a s + b for each
// tap, x'[a'][b c] is the padded source at a' s + b, so y = Σ x' w' over fewer taps of more
// channels.
namespace traingraph::cuda {

struct SpaceToDepth {
  Shape source, weights;  // (N, C', H', W') and (O, C', kh', kw'), the channel innermost in memory
  Shape plain, kernel;    // (N, C, H, W) and (O, C, kh, kw)
  std::int64_t stride = 1;         // s
  std::int64_t taps[2] = {1, 1};   // taps that became channels, down and across
  std::int64_t top = 0, left = 0;  // padding
};

// Whether a pass is rewritten by space-to-depth. Its source and weights are then plain.
bool uses_space_to_depth(const ir::Graph& graph, const ir::Node& node);
SpaceToDepth space_to_depth(const ir::Graph& graph, const ir::Node& node);

// x → x', w → w', and w' → w, for elements of 2 or 4 bytes. Channels without a tap are zero.
void enqueue_source(const SpaceToDepth& plan, std::size_t element_bytes, const void* x, void* to,
                    cudaStream_t stream);
void enqueue_weights(const SpaceToDepth& plan, std::size_t element_bytes, const void* weights,
                     void* to, cudaStream_t stream);
void enqueue_weights_back(const SpaceToDepth& plan, std::size_t element_bytes, const void* from,
                          void* weights, cudaStream_t stream);

}  // namespace traingraph::cuda
