#pragma once

#include <memory>

#import <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include "backends/metal/device/objects.h"
#include "backends/metal/shaders/shader_kernel.h"
#include "ir/attributes.h"

// Weights are read from memory in each run, because the update has changed them there: an own
// shader brings them into Apple's order (O, kh, kw, I), and kernels reload them on the GPU. For .mm
// files only.
namespace traingraph::metal {

// Sizes of the window alone: where it begins is not said in a descriptor.
Ref<MPSCNNConvolutionDescriptor*> convolution_descriptor(const ir::Window& window,
                                                         std::int64_t groups, std::int64_t inputs,
                                                         std::int64_t outputs);

// Those of a convolution's kernels, of either direction and kind.
class WeightsAndBiases {
 public:
  // Of this shape (O, I / groups, kh, kw). Biases are zeros until they are loaded; without them the
  // kernels have none.
  WeightsAndBiases(Device& device, const Shape& weights, bool has_biases,
                   Ref<MPSCNNConvolutionDescriptor*> descriptor);

  template <class K>
  Ref<K*> kernel(const Device& device) const {
    return Ref<K*>::own([[K alloc] initWithDevice:device.objects().device.get()
                                          weights:source_.get()]);
  }
  // The numbers of this run, for a kernel of any class: weights (O, I / groups, kh, kw) and biases
  // (O); null: those it has.
  template <class K>
  void reload(Encoding& encoding, K* kernel, const std::byte* weights,
              const std::byte* biases = nullptr) const {
    load(encoding, weights, biases);
    [kernel reloadWeightsAndBiasesWithCommandBuffer:command_buffer(encoding) state:state_.get()];
  }
  // The sums that a state has, to their places; null: nobody wants those of biases.
  void write_sums(Encoding& encoding, MPSCNNConvolutionGradientState* state,
                  const std::byte* weights, const std::byte* biases = nullptr) const;

 private:
  void load(Encoding& encoding, const std::byte* weights, const std::byte* biases) const;

  const Shader& move_;
  const Shader& copy_;
  std::int64_t elements_, channels_;
  std::shared_ptr<std::byte> weights_;  // in Apple's order
  std::shared_ptr<std::byte> biases_;   // null: none
  shader::Moved to_apple_{}, from_apple_{};
  Ref<MPSCNNConvolutionDescriptor*> descriptor_;
  Ref<id<MPSCNNConvolutionDataSource>> source_;
  Ref<MPSCNNConvolutionWeightsAndBiasesState*> state_;
};

}  // namespace traingraph::metal
