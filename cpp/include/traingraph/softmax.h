#pragma once

#include <traingraph/layer.h>

namespace traingraph {

enum class SoftmaxOperation : int { kSoftmax = 0, kLogSoftmax = 1 };

class TRAINGRAPH_API Softmax final : public Layer {
 public:
  static const ClassDescription& class_description();
  explicit Softmax(SoftmaxOperation operation, std::int64_t dimension = 1);
  SoftmaxOperation operation() const { return operation_; }
  std::int64_t dimension() const { return dimension_; }
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  SoftmaxOperation operation_;
  std::int64_t dimension_;
};

// Training drops elements with probability `rate` and scales the others by 1 / (1 - rate);
// inference is the identity. Seed 0: from the platform's seed and the layer's position.
class TRAINGRAPH_API Dropout final : public Layer {
 public:
  static const ClassDescription& class_description();
  Dropout(float rate, std::uint64_t seed = 0);
  float rate() const { return rate_; }
  std::uint64_t seed() const { return seed_; }
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  float rate_;
  std::uint64_t seed_;
};

}  // namespace traingraph
