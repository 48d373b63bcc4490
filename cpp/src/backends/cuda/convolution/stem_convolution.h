#pragma once

#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/convolution/space_to_depth.h"
#include "backends/cuda/kernel/node_kernel.h"

// Stem convolutions in TF32 by hand-written kernels: 7 x 7, stride 2, three channels.
// space_to_depth.h makes them 4 x 4 over twelve channels. The four taps of a row then read 48
// contiguous floats per position. cuDNN's engines copy their input first, which these kernels
// avoid.
namespace traingraph::cuda {

constexpr int kStemTaps = 4;  // down and across
constexpr int kStemChannels = 12;
constexpr int kStemWidth = kStemTaps * kStemChannels;
constexpr int kStemResults = 64;  // per block

// Whether this is a stem convolution or its weight gradient, with a multiple of kStemResults
// results.
inline Support is_stem(const ir::Graph& graph, const ir::Node& node) {
  const auto& a = std::get<ir::ConvolutionAttributes>(node.attributes);
  if (compute_type(graph, node) != DataType::kFloat32 || !a.epilogue.empty() ||
      !uses_space_to_depth(graph, node)) {
    return Support::no("stem convolution: few channels in TF32");
  }
  const SpaceToDepth packed = space_to_depth(graph, node);
  if (packed.weights[1] != kStemChannels || packed.weights[2] != kStemTaps ||
      packed.weights[3] != kStemTaps || packed.weights[0] % kStemResults != 0) {
    return Support::no("stem convolution: twelve channels, 4 x 4 taps, results in multiples of 64");
  }
  return {};
}

}  // namespace traingraph::cuda
