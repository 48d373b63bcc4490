#pragma once

#include <traingraph/normalization.h>

namespace traingraph {

// y = (x - mean) / sqrt(variance + epsilon) * gamma + beta per channel of (N, C, …). Training uses
// the batch's biased statistics and moves the running ones:
// running = momentum * running + (1 - momentum) * batch.
class TRAINGRAPH_API BatchNormalization final : public RunningNormalization {
 public:
  static const ClassDescription& class_description();
  BatchNormalization(std::int64_t channels, TensorPtr mean, TensorPtr variance, TensorPtr beta,
                     TensorPtr gamma, float variance_epsilon = 1e-5f, float momentum = 0.99f);
  // Makes its own parameters: mean 0, variance 1, beta 0, gamma 1.
  explicit BatchNormalization(std::int64_t channels, float variance_epsilon = 1e-5f,
                              float momentum = 0.99f);

  std::string description() const override;
  void emit(Emitter& emitter) const override;
};

}  // namespace traingraph
