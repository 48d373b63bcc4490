#pragma once

#include <traingraph/layer.h>

namespace traingraph {

enum class LossType : int {
  kMeanAbsoluteError = 0,
  kMeanSquaredError = 1,
  kSoftmaxCrossEntropy = 2,
  kSigmoidCrossEntropy = 3,
  kCategoricalCrossEntropy = 4,
  kHinge = 5,
  kHuber = 6,
  kCosineDistance = 7,
  kLog = 8,
};

struct TRAINGRAPH_API LossDescriptor {
  static const ClassDescription& class_description();
  LossType type = LossType::kMeanSquaredError;
  ReductionType reduction = ReductionType::kMean;
  float weight = 1.0f;
  float label_smoothing = 0.0f;
  std::int64_t class_count = 0;  // 0: from the labels
  float epsilon = 1e-7f;
  float delta = 1.0f;
};

// Sources: prediction, label, optionally one weight per value that reduction none gives. Labels of
// softmax cross entropy are a distribution of the prediction's shape, which weights may have too,
// or integer classes without the class axis (or with extent 1); -1 ignores the row.
class TRAINGRAPH_API Loss final : public Layer {
 public:
  static const ClassDescription& class_description();
  explicit Loss(LossDescriptor descriptor, TensorPtr weights = nullptr);
  const LossDescriptor& descriptor() const { return descriptor_; }
  const TensorPtr& weights() const { return weights_; }
  std::string description() const override;
  void emit(Emitter& emitter) const override;

 private:
  LossDescriptor descriptor_;
  TensorPtr weights_;
};

}  // namespace traingraph
