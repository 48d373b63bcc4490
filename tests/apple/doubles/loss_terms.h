// Losses of a batch and their derivatives, for every kernel that has one. What a kernel reports is
// the sum of its values times the share that its reduction gives each of them; derivatives are
// those of what is reported. How a reduction scales gradients is told by no document.
// https://developer.apple.com/documentation/metalperformanceshaders/mpscnnlosstype
#pragma once
#include <optional>

#include "kernel.h"

namespace apple {

struct Loss {
  MPSCNNLossType type;
  MPSCNNReductionType reduction;
  bool across_batch;
  double weight, smoothing, classes, epsilon, delta;

  // The size of the values of an image, which weights have too: softmax has one per texel.
  Extent values_of(Extent source) const;
  // The size of what is reported.
  Extent reported_of(Extent source) const;
};

// The loss that a kernel's properties say.
template <class Kernel>
Loss loss_of(const Kernel* k) {
  return {k->_lossType, k->_reductionType,  k->_reduceAcrossBatch != NO,
          k->_weight,   k->_labelSmoothing, static_cast<double>(k->_numberOfClasses),
          k->_epsilon,  k->_delta};
}

// Gives a kernel the properties of its descriptor.
template <class Kernel>
void take_loss(Kernel* k, const MPSCNNLossDescriptor* d) {
  expect(d != nil, "a loss without its descriptor");
  expect(
      d->_lossType != MPSCNNLossTypeCosineDistance || d->_reductionType == MPSCNNReductionTypeSum,
      "a cosine distance is reduced by its sum");
  k->_lossType = d->_lossType;
  k->_reductionType = d->_reductionType;
  k->_reduceAcrossBatch = d->_reduceAcrossBatch;
  k->_numberOfClasses = d->_numberOfClasses;
  k->_weight = d->_weight;
  k->_labelSmoothing = d->_labelSmoothing;
  k->_epsilon = d->_epsilon;
  k->_delta = d->_delta;
}

// What a loss reads of one image.
struct LossTerms {
  Picture source, labels;
  std::optional<Picture> weights;
};

// Fails where these do not belong together.
void check_terms(const Loss& loss, const std::vector<LossTerms>& images, const char* what);

// Across a batch the first report has it all, and the others are 0.
void report(const Loss& loss, const std::vector<LossTerms>& images, const Pictures& reports);

// Derivatives with respect to the sources, or the labels, of the sum of the reports, each times
// what came in for it; nothing came in: times 1.
void differentiate(const Loss& loss, const std::vector<LossTerms>& images, const Pictures& incoming,
                   bool by_labels, const Pictures& results);

}  // namespace apple
