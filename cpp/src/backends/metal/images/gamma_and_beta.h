#pragma once

#include <memory>

#import <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include "backends/metal/device/objects.h"

// For .mm files only.
namespace traingraph::metal {

// Those of a normalization's kernel, one of each per channel, as it reloads them.
class GammaAndBeta {
 public:
  GammaAndBeta(Device& device, std::int64_t channels)
      : channels_(channels),
        copy_pair_(device.shader("copy_pair")),
        gamma_(device.keep(bytes())),
        beta_(device.keep(bytes())) {
    const Pool pool;
    state_ = Ref<MPSCNNNormalizationGammaAndBetaState*>::own(
        [[MPSCNNNormalizationGammaAndBetaState alloc]
            initWithGamma:place(device, gamma_.get()).buffer
                     beta:place(device, beta_.get()).buffer]);
  }

  // What a data source answers before the first reload.
  float* gamma() const { return reinterpret_cast<float*>(gamma_.get()); }
  float* beta() const { return reinterpret_cast<float*>(beta_.get()); }

  // The numbers of this run, for a kernel of either class.
  template <class K>
  void reload(Encoding& encoding, K* kernel, const std::byte* gamma, const std::byte* beta) const {
    const std::byte* buffers[] = {gamma, beta, gamma_.get(), beta_.get()};
    encoding.run(copy_pair_, buffers, 4, nullptr, 0, channels_);
    [kernel reloadGammaAndBetaWithCommandBuffer:command_buffer(encoding)
                              gammaAndBetaState:state_.get()];
  }
  // The sums that a state has, to their places.
  void write_sums(Encoding& encoding, id<MTLBuffer> of_gamma, id<MTLBuffer> of_beta,
                  const std::byte* gamma, const std::byte* beta) const {
    const Device& device = encoding.device();
    run(encoding, copy_pair_,
        {{of_gamma, 0}, {of_beta, 0}, place(device, gamma), place(device, beta)}, nullptr, 0,
        channels_);
  }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(channels_) * sizeof(float); }

  std::int64_t channels_;
  const Shader& copy_pair_;
  std::shared_ptr<std::byte> gamma_, beta_;
  Ref<MPSCNNNormalizationGammaAndBetaState*> state_;
};

}  // namespace traingraph::metal
