#pragma once

#include "backends/cuda/convolution.h"

// A convolution of few channels with a stride, as tensor cores like it: the s × s elements that the
// stride steps over become channels, and the stride 1. With t = a s + b for each tap, x'[a'][b c]
// is the padded source at a' s + b, so y = Σ x' w' over fewer taps of more channels. The images of
// a network's first layer are such sources.
namespace traingraph::cuda {

struct FewChannels {
  Shape source, weights;  // (N, C', H', W') and (O, C', kh', kw'), the channel innermost in memory
  Shape plain, kernel;    // (N, C, H, W) and (O, C, kh, kw)
  std::int64_t stride = 1;         // s
  std::int64_t top = 0, left = 0;  // padding
};

// Whether a pass is rewritten so: its source and weights are then plain.
bool has_few_channels(const ir::Graph& graph, const ir::Node& node);
FewChannels few_channels(const ir::Graph& graph, const ir::Node& node);

// x → x', w → w', and w' → w, elements of 2 or 4 bytes. Channels beyond C s s are zeros.
void enqueue_source(const FewChannels& plan, std::size_t element_bytes, const void* x, void* to,
                    cudaStream_t stream);
void enqueue_weights(const FewChannels& plan, std::size_t element_bytes, const void* weights,
                     void* to, cudaStream_t stream);
void enqueue_weights_back(const FewChannels& plan, std::size_t element_bytes, const void* from,
                          void* weights, cudaStream_t stream);

}  // namespace traingraph::cuda
