#pragma once

#include <traingraph/mps/loss.h>

#include "mps/recording/emission.h"

// A loss as ops, for every kernel that has one.
namespace traingraph::mps {

// Raises InvalidArgument or Unsupported naming what cannot be.
void check_loss(const CNNLossDescriptor& d, const std::string& who);

// The size of one value per element: one per pixel of softmax cross entropy.
ImageDescriptor values_of(const CNNLossDescriptor& d, const ImageDescriptor& prediction);
// The size that these weights must have: that of the values, or of softmax cross entropy that of
// the labels, where they are weights of classes.
ImageDescriptor weights_of(const CNNLossDescriptor& d, const ImageDescriptor& prediction,
                           const ImageDescriptor& weights);

struct LossTerms {
  ir::ValueId prediction;
  ir::ValueId labels;
  ir::ValueId weights;  // per value, or per class; kNone: none
  // Whether the first number of the run stands for the descriptor's weight.
  bool running_weight = false;
};

// One value per element: (N, C, H, W), or (N, 1, H, W) for softmax cross entropy.
ir::ValueId loss_values(Emission& e, const CNNLossDescriptor& d, const LossTerms& terms);
// The same for softmax cross entropy, in a form that can be differentiated by the labels.
ir::ValueId softmax_by_labels(Emission& e, const CNNLossDescriptor& d, const LossTerms& terms);
// Raises Unsupported where the printed gradient is the loss's derivative.
void check_printed(const CNNLossDescriptor& d, const std::string& who);
// Values whose derivative by `by`, a copy of the prediction, is what is printed where that is not.
ir::ValueId printed_values(Emission& e, const CNNLossDescriptor& d, const LossTerms& terms,
                           ir::ValueId by);
// By what the reduction multiplies each value, in the shape of the values.
ir::ValueId loss_share(Emission& e, const CNNLossDescriptor& d, const LossTerms& terms,
                       ir::ValueId values);
// (N, 1, 1, 1), or the values themselves without a reduction.
ir::ValueId reduced_loss(Emission& e, const CNNLossDescriptor& d, ir::ValueId values,
                         ir::ValueId share);

}  // namespace traingraph::mps
