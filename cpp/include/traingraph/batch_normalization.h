#pragma once

#include <traingraph/layer.h>

namespace traingraph {

// y = (x - mean) / sqrt(variance + epsilon) * gamma + beta per channel of (N, C, …). Training uses
// the batch's biased statistics and moves the running ones:
// running = momentum * running + (1 - momentum) * batch.
class TRAINGRAPH_API BatchNormalization final : public Layer {
 public:
  static const ClassDescription& class_description();
  BatchNormalization(std::int64_t channels, TensorPtr mean, TensorPtr variance, TensorPtr beta,
                     TensorPtr gamma, float variance_epsilon = 1e-5f, float momentum = 0.99f);
  // Makes its own parameters: mean 0, variance 1, beta 0, gamma 1.
  explicit BatchNormalization(std::int64_t channels, float variance_epsilon = 1e-5f,
                              float momentum = 0.99f);

  std::int64_t channels() const { return channels_; }
  const TensorPtr& mean() const { return mean_; }
  const TensorPtr& variance() const { return variance_; }
  // tensor is null without beta, gamma
  TensorParameter& beta() { return beta_; }
  TensorParameter& gamma() { return gamma_; }
  float variance_epsilon() const { return variance_epsilon_; }
  float momentum() const { return momentum_; }
  std::vector<TensorParameter*> parameters() override;
  std::vector<std::pair<std::string, TensorPtr>> named_parameters() const override;
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  std::int64_t channels_;
  TensorPtr mean_;
  TensorPtr variance_;
  TensorParameter beta_;
  TensorParameter gamma_;
  float variance_epsilon_;
  float momentum_;
};

}  // namespace traingraph
