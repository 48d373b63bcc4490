#pragma once

#include <cstdint>

#include <traingraph/loss.h>
#include <traingraph/tensor.h>

namespace traingraph {

// Counts right answers: the largest logit against the class of the label (softmax cross entropy),
// or each logit's sign against a label of 0 or 1 (sigmoid cross entropy).
struct Accuracy {
  std::int64_t right = 0;
  std::int64_t all = 0;

  // Whether the loss is one of a classifier.
  static bool applies(LossType type) {
    return type == LossType::kSoftmaxCrossEntropy || type == LossType::kSigmoidCrossEntropy;
  }
  // prediction (N, C, …), labels of the same shape, or integer classes without axis 1.
  void count(LossType type, const TensorData& prediction, const TensorData& labels);
};

}  // namespace traingraph
