#pragma once

#include <traingraph/normalization.h>

namespace traingraph {

// y = (x - mean) / sqrt(variance + epsilon) * gamma + beta of (N, C, …), with the mean and the
// biased variance of C / groups channels of a sample; beta and gamma have one number per channel.
class TRAINGRAPH_API GroupNormalization final : public Normalization {
 public:
  static const ClassDescription& class_description();
  // beta and gamma may be null.
  GroupNormalization(std::int64_t channels, std::int64_t groups, TensorPtr beta = nullptr,
                     TensorPtr gamma = nullptr, float variance_epsilon = 1e-5f);

  std::int64_t channels() const { return channels_; }
  std::int64_t groups() const { return groups_; }
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  std::int64_t channels_;
  std::int64_t groups_;
};

}  // namespace traingraph
