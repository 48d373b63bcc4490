#pragma once

#include "backends/cuda/convolution.h"
#include "backends/cuda/few_channels.h"
#include "backends/cuda/node_kernel.h"

// A first layer in TF32 by own kernels: 7 x 7 with strides of 2 over three channels, which
// few_channels.h makes 4 x 4 over twelve. What the four taps of a row see of the source lies in one
// piece: 48 numbers of each position. cuDNN's engines copy what they read before they begin.
namespace traingraph::cuda {

constexpr int kFirstTaps = 4;  // down and across
constexpr int kFirstChannels = 12;
constexpr int kFirstWidth = kFirstTaps * kFirstChannels;
constexpr int kFirstResults = 64;  // of a block

// Whether a convolution, or the gradient of its weights, is one, its results in tiles of
// kFirstResults.
inline Support is_first_layer(const ir::Graph& graph, const ir::Node& node) {
  const auto& a = std::get<ir::ConvolutionAttributes>(node.attributes);
  if (compute_type(graph, node) != DataType::kFloat32 || !a.epilogue.empty() ||
      !has_few_channels(graph, node)) {
    return Support::no("first layer: few channels in TF32");
  }
  const FewChannels few = few_channels(graph, node);
  if (few.weights[1] != kFirstChannels || few.weights[2] != kFirstTaps ||
      few.weights[3] != kFirstTaps || few.weights[0] % kFirstResults != 0) {
    return Support::no("first layer: twelve channels, 4 x 4 taps, results in multiples of 64");
  }
  return {};
}

}  // namespace traingraph::cuda
