#pragma once

#include <traingraph/normalization.h>

namespace traingraph {

// y = (x - mean) / sqrt(variance + epsilon) * gamma + beta of (N, C, …), with the mean and the
// biased variance of each channel of each sample. With running numbers these are what inference
// uses; training moves them: running = momentum * running + (1 - momentum) * mean over the samples.
class TRAINGRAPH_API InstanceNormalization final : public RunningNormalization {
 public:
  static const ClassDescription& class_description();
  // Mean and variance are null together; beta and gamma may be.
  InstanceNormalization(std::int64_t channels, TensorPtr mean, TensorPtr variance,
                        TensorPtr beta = nullptr, TensorPtr gamma = nullptr,
                        float variance_epsilon = 1e-5f, float momentum = 0.99f);

  std::string description() const override;
  void emit(Emitter& emitter) const override;
};

}  // namespace traingraph
