// What the normalization layers have in common: beta, gamma and epsilon, and running statistics.
#pragma once

#include <traingraph/layer.h>

namespace traingraph {

// y = (x - mean) / sqrt(variance + epsilon) * gamma + beta; whose mean and variance these are, a
// layer says.
class TRAINGRAPH_API Normalization : public Layer {
 public:
  // tensor is null without beta, gamma
  TensorParameter& beta() { return beta_; }
  TensorParameter& gamma() { return gamma_; }
  float variance_epsilon() const { return variance_epsilon_; }
  std::vector<TensorParameter*> parameters() override;
  std::vector<std::pair<std::string, TensorPtr>> named_parameters() const override;

 protected:
  Normalization(const char* kind, TensorPtr beta, TensorPtr gamma, float variance_epsilon);

  TensorParameter beta_;
  TensorParameter gamma_;
  float variance_epsilon_;
};

// One per channel of (N, C, …), with statistics that training moves:
// running = momentum * running + (1 - momentum) * new.
class TRAINGRAPH_API RunningNormalization : public Normalization {
 public:
  std::int64_t channels() const { return channels_; }
  // Null without running numbers.
  const TensorPtr& mean() const { return mean_; }
  const TensorPtr& variance() const { return variance_; }
  float momentum() const { return momentum_; }
  std::vector<std::pair<std::string, TensorPtr>> named_parameters() const override;

 protected:
  RunningNormalization(const char* kind, std::int64_t channels, TensorPtr mean, TensorPtr variance,
                       TensorPtr beta, TensorPtr gamma, float variance_epsilon, float momentum);

  std::int64_t channels_;
  TensorPtr mean_;
  TensorPtr variance_;
  float momentum_;
};

}  // namespace traingraph
