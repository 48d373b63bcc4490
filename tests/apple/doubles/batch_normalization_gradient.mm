// The two gradient kernels of batch normalization.
// https://developer.apple.com/documentation/metalperformanceshaders/mpscnnbatchnormalizationgradient
#include "batch_normalization.h"

using namespace apple::batch_normalization;

namespace {

void add_gradient_statistics(MPSCNNBatchNormalizationState* state, const apple::Neuron& neuron,
                             const Picture& gradient, const Picture& source) {
  source.each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
    const Normalized at = normalize(state, source, x, y, c);
    const double g = gradient.get(x, y, c) * neuron.derivative(at.before_neuron, c);
    inside(state).gamma_sums[c] += g * at.normalized;
    inside(state).beta_sums[c] += g;
  });
  for (NSUInteger c = 0; c < source.channels; ++c) {
    values(state, kGammaGradient)[c] = static_cast<float>(inside(state).gamma_sums[c]);
    values(state, kBetaGradient)[c] = static_cast<float>(inside(state).beta_sums[c]);
  }
}

// γ / sqrt(σ² + ε) (g - Σg / M - x̂ Σ g x̂ / M)
void gradient_of(MPSCNNBatchNormalizationState* state, const apple::Neuron& neuron,
                 const Picture& gradient, const Picture& source, const Picture& to) {
  const auto& sums = inside(state);
  source.each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
    const Normalized at = normalize(state, source, x, y, c);
    const double g = gradient.get(x, y, c) * neuron.derivative(at.before_neuron, c);
    const double scale =
        values(state, kGamma)[c] / std::sqrt(values(state, kVariance)[c] + sums.epsilon);
    to.set(x, y, c,
           static_cast<float>(scale * (g - sums.beta_sums[c] / sums.elements -
                                       at.normalized * sums.gamma_sums[c] / sums.elements)));
  });
}

void check_equal(const apple::Neuron& own, MPSCNNBatchNormalizationState* state, const char* what) {
  const auto& forward = state->_batchNormalization->inside_MPSCNNBatchNormalization->neuron;
  if (own.type != forward.type || own.a != forward.a || own.b != forward.b || own.c != forward.c)
    apple::broken(what, "its fused neuron differs from that of the forward kernel");
}

}  // namespace

@implementation MPSCNNBatchNormalizationStatisticsGradient
MEMBERS(MPSCNNBatchNormalizationStatisticsGradient)
- (instancetype)initWithDevice:(id<MTLDevice>)device
         fusedNeuronDescriptor:(MPSNNNeuronDescriptor*)fusedNeuronDescriptor {
  self = [super initWithDevice:device];
  inside_MPSCNNBatchNormalizationStatisticsGradient =
      std::make_shared<MPSCNNBatchNormalizationStatisticsGradientInside>(
          MPSCNNBatchNormalizationStatisticsGradientInside{apple::Neuron(fusedNeuronDescriptor)});
  return self;
}
- (void)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                   sourceGradients:(MPSImageBatch*)sourceGradients
                      sourceImages:(MPSImageBatch*)sourceImages
           batchNormalizationState:(MPSCNNBatchNormalizationState*)state {
  const char* what = "MPSCNNBatchNormalizationStatisticsGradient";
  const Pictures gradients = apple::read(sourceGradients, commandBuffer, what);
  const Pictures sources = apple::read(sourceImages, commandBuffer, what);
  if (sources.size() != gradients.size()) apple::broken(what, "its batches differ in size");
  take_step(state, Step::kGradientStatistics, sources.size(), commandBuffer, what);
  const apple::Neuron& neuron = inside_MPSCNNBatchNormalizationStatisticsGradient->neuron;
  check_equal(neuron, state, what);
  apple::add_work(commandBuffer, what, [gradients, sources, neuron, kept = State(state)] {
    for (std::size_t index = 0; index < sources.size(); ++index)
      add_gradient_statistics(kept, neuron, gradients[index], sources[index]);
  });
}
@end

@implementation MPSCNNBatchNormalizationGradient
MEMBERS(MPSCNNBatchNormalizationGradient)
- (instancetype)initWithDevice:(id<MTLDevice>)device
         fusedNeuronDescriptor:(MPSNNNeuronDescriptor*)fusedNeuronDescriptor {
  self = [super initWithDevice:device];
  inside_MPSCNNBatchNormalizationGradient =
      std::make_shared<MPSCNNBatchNormalizationGradientInside>(
          MPSCNNBatchNormalizationGradientInside{apple::Neuron(fusedNeuronDescriptor)});
  return self;
}
- (void)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                   sourceGradients:(MPSImageBatch*)sourceGradients
                      sourceImages:(MPSImageBatch*)sourceImages
           batchNormalizationState:(MPSCNNBatchNormalizationState*)state
              destinationGradients:(MPSImageBatch*)destinationGradients {
  const char* what = "MPSCNNBatchNormalizationGradient";
  const Pictures gradients = apple::read(sourceGradients, commandBuffer, what);
  const Pictures sources = apple::read(sourceImages, commandBuffer, what);
  const Pictures results =
      apple::write(destinationGradients, commandBuffer, what, {sourceGradients, sourceImages});
  if (sources.size() != gradients.size() || results.size() != sources.size())
    apple::broken(what, "its batches differ in size");
  take_step(state, Step::kGradient, sources.size(), commandBuffer, what);
  const apple::Neuron& neuron = inside_MPSCNNBatchNormalizationGradient->neuron;
  check_equal(neuron, state, what);
  apple::add_work(commandBuffer, what, [gradients, sources, results, neuron, kept = State(state)] {
    for (std::size_t index = 0; index < sources.size(); ++index)
      gradient_of(kept, neuron, gradients[index], sources[index], results[index]);
  });
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
               sourceGradient:(MPSImage*)sourceGradient
                  sourceImage:(MPSImage*)sourceImage
      batchNormalizationState:(MPSCNNBatchNormalizationState*)state
          destinationGradient:(MPSImage*)destinationGradient {
  [self encodeBatchToCommandBuffer:commandBuffer
                   sourceGradients:one(sourceGradient)
                      sourceImages:one(sourceImage)
           batchNormalizationState:state
              destinationGradients:one(destinationGradient)];
}
@end
