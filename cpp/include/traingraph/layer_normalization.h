#pragma once

#include <traingraph/layer.h>

namespace traingraph {

// y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, with the mean and the biased variance
// of what the last axes hold: (W), (H, W) or (C, H, W). beta and gamma have the shape of these
// axes.
class TRAINGRAPH_API LayerNormalization final : public Layer {
 public:
  static const ClassDescription& class_description();
  // beta and gamma may be null.
  explicit LayerNormalization(Shape normalized_shape, TensorPtr beta = nullptr,
                              TensorPtr gamma = nullptr, float variance_epsilon = 1e-5f);

  const Shape& normalized_shape() const { return normalized_shape_; }
  // tensor is null without beta, gamma
  TensorParameter& beta() { return beta_; }
  TensorParameter& gamma() { return gamma_; }
  float variance_epsilon() const { return variance_epsilon_; }
  std::vector<TensorParameter*> parameters() override;
  std::vector<std::pair<std::string, TensorPtr>> named_parameters() const override;
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  Shape normalized_shape_;
  TensorParameter beta_;
  TensorParameter gamma_;
  float variance_epsilon_;
};

}  // namespace traingraph
