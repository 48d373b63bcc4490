// What the four kernels of batch normalization share: their state, and the order of its use.
#pragma once
#include <cmath>

#include "kernel.h"
#include "neuron.h"

namespace apple::batch_normalization {

enum class Step { kNone, kStatistics, kNormalization, kGradientStatistics, kGradient };

using apple::Picture;
using apple::Pictures;

}  // namespace apple::batch_normalization

struct MPSCNNBatchNormalizationInside {
  std::vector<float> gamma, beta, mean, variance;
  apple::Neuron neuron;
};

struct MPSCNNBatchNormalizationStatisticsGradientInside {
  apple::Neuron neuron;
};
struct MPSCNNBatchNormalizationGradientInside {
  apple::Neuron neuron;
};

struct MPSCNNBatchNormalizationStateInside {
  // What was encoded: the last step, and images that each of the steps has seen.
  apple::batch_normalization::Step last = apple::batch_normalization::Step::kNone;
  NSUInteger images[5] = {};
  // What has run: sums over the batch, by channel.
  double elements = 0;
  std::vector<double> sums, squares, gamma_sums, beta_sums;
  float epsilon = 0;
};

namespace apple::batch_normalization {

using State = apple::Kept<MPSCNNBatchNormalizationState*>;

inline MPSCNNBatchNormalizationStateInside& inside(MPSCNNBatchNormalizationState* state) {
  return *state->inside_MPSCNNBatchNormalizationState;
}
inline float* values(MPSCNNBatchNormalizationState* state, NSUInteger index) {
  return apple::floats(state->inside_MPSState->buffers[index]);
}
// Places of the buffers of a state.
constexpr NSUInteger kGamma = 0, kBeta = 1, kMean = 2, kVariance = 3, kGammaGradient = 4,
                     kBetaGradient = 5;

// Encodes a step over some images; fails where the order is broken.
void take_step(MPSCNNBatchNormalizationState* state, Step step, NSUInteger images,
               id<MTLCommandBuffer> commands, const char* what);

// γ x̂ + β before the fused neuron, and x̂.
struct Normalized {
  double before_neuron, normalized;
};
inline Normalized normalize(double x, double mean, double variance, double epsilon, double gamma,
                            double beta) {
  const double normalized = (x - mean) / std::sqrt(variance + epsilon);
  return {gamma * normalized + beta, normalized};
}

inline Normalized normalize(MPSCNNBatchNormalizationState* state, const Picture& source,
                            NSUInteger x, NSUInteger y, NSUInteger c) {
  return normalize(source.get(x, y, c), values(state, kMean)[c], values(state, kVariance)[c],
                   inside(state).epsilon, values(state, kGamma)[c], values(state, kBeta)[c]);
}

inline MPSImageBatch* one(MPSImage* image) { return [NSArray arrayWithObject:image]; }

}  // namespace apple::batch_normalization
