#pragma once

#include "backends/cuda/convolution.h"

// A convolution of few channels as tensor cores like it: over more channels, and with stride 1. The
// images of a network's first layer are such sources. Where all taps of the kernel make few
// channels, they become channels, and the convolution a product of matrices. Otherwise the s × s
// elements that the stride steps over do: with t = a s + b for each tap, x'[a'][b c] is the padded
// source at a' s + b, so y = Σ x' w' over fewer taps of more channels.
namespace traingraph::cuda {

struct FewChannels {
  Shape source, weights;  // (N, C', H', W') and (O, C', kh', kw'), the channel innermost in memory
  Shape plain, kernel;    // (N, C, H, W) and (O, C, kh, kw)
  std::int64_t stride = 1;         // s
  std::int64_t taps[2] = {1, 1};   // down and across, that became channels
  std::int64_t top = 0, left = 0;  // padding
};

// Whether a pass is rewritten so: its source and weights are then plain.
bool has_few_channels(const ir::Graph& graph, const ir::Node& node);
FewChannels few_channels(const ir::Graph& graph, const ir::Node& node);

// x → x', w → w', and w' → w, elements of 2 or 4 bytes. Channels beyond those of the taps are
// zeros.
void enqueue_source(const FewChannels& plan, std::size_t element_bytes, const void* x, void* to,
                    cudaStream_t stream);
void enqueue_weights(const FewChannels& plan, std::size_t element_bytes, const void* weights,
                     void* to, cudaStream_t stream);
void enqueue_weights_back(const FewChannels& plan, std::size_t element_bytes, const void* from,
                          void* weights, cudaStream_t stream);

}  // namespace traingraph::cuda
