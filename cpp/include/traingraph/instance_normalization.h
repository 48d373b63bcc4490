#pragma once

#include <traingraph/layer.h>

namespace traingraph {

// y = (x - mean) / sqrt(variance + epsilon) * gamma + beta of (N, C, …), with the mean and the
// biased variance of each channel of each sample. With running numbers these are what inference
// uses; training moves them: running = momentum * running + (1 - momentum) * mean over the samples.
class TRAINGRAPH_API InstanceNormalization final : public Layer {
 public:
  static const ClassDescription& class_description();
  // Mean and variance are null together; beta and gamma may be.
  InstanceNormalization(std::int64_t channels, TensorPtr mean, TensorPtr variance,
                        TensorPtr beta = nullptr, TensorPtr gamma = nullptr,
                        float variance_epsilon = 1e-5f, float momentum = 0.99f);

  std::int64_t channels() const { return channels_; }
  // Null without running numbers.
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
