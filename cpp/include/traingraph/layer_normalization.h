#pragma once

#include <traingraph/normalization.h>

namespace traingraph {

// y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, with the mean and the biased variance
// of what the last axes hold: (W), (H, W) or (C, H, W). beta and gamma have the shape of these
// axes.
class TRAINGRAPH_API LayerNormalization final : public Normalization {
 public:
  static const ClassDescription& class_description();
  // beta and gamma may be null.
  explicit LayerNormalization(Shape normalized_shape, TensorPtr beta = nullptr,
                              TensorPtr gamma = nullptr, float variance_epsilon = 1e-5f);

  const Shape& normalized_shape() const { return normalized_shape_; }
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  Shape normalized_shape_;
};

}  // namespace traingraph
