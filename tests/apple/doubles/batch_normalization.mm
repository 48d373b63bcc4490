// Batch normalization by its four kernels and their state. The order over one batch is: statistics,
// normalization, statistics of the gradient, gradient; each of the two kernels that sum must have
// seen every image before the next kernel begins.
// https://developer.apple.com/documentation/metalperformanceshaders/mpscnnbatchnormalization
#include "batch_normalization.h"

#include <cfloat>

using namespace apple::batch_normalization;

void apple::batch_normalization::take_step(MPSCNNBatchNormalizationState* state, Step step,
                                           NSUInteger images, id<MTLCommandBuffer> commands,
                                           const char* what) {
  if (step == Step::kStatistics && !apple::lenient())
    apple::use_state(state, commands, what);
  else
    apple::read_state(state, commands, what);
  auto& seen = inside(state);
  const auto place = static_cast<std::size_t>(step);
  if (step < seen.last)
    apple::broken(what,
                  "a state is used in another order than statistics, normalization, statistics of "
                  "the gradient, gradient");
  if (step == Step::kNormalization && seen.images[1] == 0)
    apple::broken(what, "normalization before the statistics of its state");
  if (step == Step::kGradientStatistics && seen.images[1] == 0)
    apple::broken(what, "statistics of the gradient before those of the batch");
  if (step == Step::kGradient && seen.images[3] != seen.images[1])
    apple::broken(what, "the gradient before its statistics have seen all images of the batch");
  seen.last = step;
  seen.images[place] += images;
  if (seen.images[place] > seen.images[1])
    apple::broken(what, "more images than the statistics of the state have seen");
}

namespace {

// The state has what the kernel has when it runs.
void take_gamma_and_beta(MPSCNNBatchNormalizationState* state) {
  const auto& own = *state->_batchNormalization->inside_MPSCNNBatchNormalization;
  std::copy(own.gamma.begin(), own.gamma.end(), values(state, kGamma));
  std::copy(own.beta.begin(), own.beta.end(), values(state, kBeta));
}

void add_statistics(MPSCNNBatchNormalizationState* state, const Pictures& sources) {
  auto& sums = inside(state);
  take_gamma_and_beta(state);
  const NSUInteger channels = sums.sums.size();
  for (const Picture& source : sources) {
    sums.elements += static_cast<double>(source.width() * source.height());
    source.each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
      const double value = source.get(x, y, c);
      sums.sums[c] += value;
      sums.squares[c] += value * value;
    });
  }
  for (NSUInteger c = 0; c < channels; ++c) {
    const double mean = sums.sums[c] / sums.elements;
    values(state, kMean)[c] = static_cast<float>(mean);
    values(state, kVariance)[c] =
        static_cast<float>(std::max(0.0, sums.squares[c] / sums.elements - mean * mean));
  }
}

}  // namespace

// --- states --------------------------------------------------------------------------------------

@implementation MPSCNNNormalizationGammaAndBetaState
MEMBERS(MPSCNNNormalizationGammaAndBetaState)
- (instancetype)initWithGamma:(id<MTLBuffer>)gamma beta:(id<MTLBuffer>)beta {
  self = [super initWithResources:[NSArray array]];
  _gamma = [gamma retain];
  _beta = [beta retain];
  return self;
}
@end

@implementation MPSCNNNormalizationMeanAndVarianceState
MEMBERS(MPSCNNNormalizationMeanAndVarianceState)
- (instancetype)initWithMean:(id<MTLBuffer>)mean variance:(id<MTLBuffer>)variance {
  self = [super initWithResources:[NSArray array]];
  _mean = [mean retain];
  _variance = [variance retain];
  return self;
}
@end

@implementation MPSCNNBatchNormalizationState
MEMBERS(MPSCNNBatchNormalizationState)
- (id<MTLBuffer>)gamma {
  return inside_MPSState->buffers[kGamma].get();
}
- (id<MTLBuffer>)beta {
  return inside_MPSState->buffers[kBeta].get();
}
- (id<MTLBuffer>)mean {
  return inside_MPSState->buffers[kMean].get();
}
- (id<MTLBuffer>)variance {
  return inside_MPSState->buffers[kVariance].get();
}
// Nil until something was encoded that writes it.
- (id<MTLBuffer>)gradientForGamma {
  return inside(self).images[3] == 0 ? nil : inside_MPSState->buffers[kGammaGradient].get();
}
- (id<MTLBuffer>)gradientForBeta {
  return inside(self).images[3] == 0 ? nil : inside_MPSState->buffers[kBetaGradient].get();
}
@end

// --- kernels -------------------------------------------------------------------------------------

@implementation MPSCNNBatchNormalization
MEMBERS(MPSCNNBatchNormalization)
- (instancetype)initWithDevice:(id<MTLDevice>)device
                    dataSource:(id<MPSCNNBatchNormalizationDataSource>)dataSource {
  return [self initWithDevice:device dataSource:dataSource fusedNeuronDescriptor:nil];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
                    dataSource:(id<MPSCNNBatchNormalizationDataSource>)dataSource
         fusedNeuronDescriptor:(MPSNNNeuronDescriptor*)fusedNeuronDescriptor {
  apple::expect(dataSource != nil, "a batch normalization without a data source");
  self = [super initWithDevice:device];
  _dataSource = [dataSource retain];
  _numberOfFeatureChannels = [dataSource numberOfFeatureChannels];
  _epsilon =
      [(id)dataSource respondsToSelector:@selector(epsilon)] ? [dataSource epsilon] : FLT_MIN;
  inside_MPSCNNBatchNormalization = std::make_shared<MPSCNNBatchNormalizationInside>();
  inside_MPSCNNBatchNormalization->neuron = apple::Neuron(fusedNeuronDescriptor);
  [self reloadGammaAndBetaFromDataSource];
  [self reloadMeanAndVarianceFromDataSource];
  return self;
}
- (void)apple_take:(std::vector<float>&)target from:(const float*)values otherwise:(float)value {
  target.assign(_numberOfFeatureChannels, value);
  if (values != nullptr) std::copy_n(values, _numberOfFeatureChannels, target.begin());
}
- (void)reloadGammaAndBetaFromDataSource {
  apple::expect([_dataSource load], "the data source of a batch normalization could not be loaded");
  auto& own = *inside_MPSCNNBatchNormalization;
  [self apple_take:own.gamma from:[_dataSource gamma] otherwise:1];
  [self apple_take:own.beta from:[_dataSource beta] otherwise:0];
  [_dataSource purge];
}
- (void)reloadMeanAndVarianceFromDataSource {
  apple::expect([_dataSource load], "the data source of a batch normalization could not be loaded");
  auto& own = *inside_MPSCNNBatchNormalization;
  [self apple_take:own.mean from:[_dataSource mean] otherwise:0];
  [self apple_take:own.variance from:[_dataSource variance] otherwise:1];
  [_dataSource purge];
}
- (void)reloadGammaAndBetaWithCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                          gammaAndBetaState:(MPSCNNNormalizationGammaAndBetaState*)state {
  const char* what = "the reload of gamma and beta";
  apple::read_state(state, commandBuffer, what);
  const NSUInteger count = _numberOfFeatureChannels;
  if ([state->_gamma length] < count * 4 || [state->_beta length] < count * 4)
    apple::broken(what, "a buffer of the state is too short");
  using Given = apple::Kept<MPSCNNNormalizationGammaAndBetaState*>;
  apple::add_work(commandBuffer, what,
                  [own = inside_MPSCNNBatchNormalization, kept = Given(state), count] {
                    std::copy_n(apple::floats(kept.get()->_gamma), count, own->gamma.begin());
                    std::copy_n(apple::floats(kept.get()->_beta), count, own->beta.begin());
                  });
}
- (void)reloadMeanAndVarianceWithCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                          meanAndVarianceState:(MPSCNNNormalizationMeanAndVarianceState*)state {
  const char* what = "the reload of mean and variance";
  apple::read_state(state, commandBuffer, what);
  const NSUInteger count = _numberOfFeatureChannels;
  if ([state->_mean length] < count * 4 || [state->_variance length] < count * 4)
    apple::broken(what, "a buffer of the state is too short");
  using Given = apple::Kept<MPSCNNNormalizationMeanAndVarianceState*>;
  apple::add_work(commandBuffer, what,
                  [own = inside_MPSCNNBatchNormalization, kept = Given(state), count] {
                    std::copy_n(apple::floats(kept.get()->_mean), count, own->mean.begin());
                    std::copy_n(apple::floats(kept.get()->_variance), count, own->variance.begin());
                  });
}
- (BOOL)isResultStateReusedAcrossBatch {
  return YES;
}
- (BOOL)appendBatchBarrier {
  return YES;
}
- (MPSState*)apple_stateForCommands:(id<MTLCommandBuffer>)commands
                             source:(MPSImage*)source
                        destination:(MPSImage*)destination {
  (void)source, (void)destination;
  std::vector<id<MTLBuffer>> buffers;
  for (int index = 0; index < 6; ++index)
    buffers.push_back(apple::make_buffer([self device], _numberOfFeatureChannels * 4));
  auto* state = (MPSCNNBatchNormalizationState*)apple::make_state(
      [MPSCNNBatchNormalizationState class], commands, buffers);
  state->_batchNormalization = [self retain];
  state->inside_MPSCNNBatchNormalizationState =
      std::make_shared<MPSCNNBatchNormalizationStateInside>();
  take_gamma_and_beta(state);
  auto& sums = inside(state);
  sums.epsilon = _epsilon;
  for (auto* sum : {&sums.sums, &sums.squares, &sums.gamma_sums, &sums.beta_sums})
    sum->assign(_numberOfFeatureChannels, 0);
  return state;
}
// Without a state: the mean and the variance that the kernel keeps.
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return [own = inside_MPSCNNBatchNormalization, epsilon = _epsilon](const Picture& from,
                                                                     const Picture& to) {
    from.each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
      const Normalized at = normalize(from.get(x, y, c), own->mean[c], own->variance[c], epsilon,
                                      own->gamma[c], own->beta[c]);
      to.set(x, y, c, static_cast<float>(own->neuron.value(at.before_neuron, c)));
    });
  };
}
- (void)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                      sourceImages:(MPSImageBatch*)sourceImages
           batchNormalizationState:(MPSCNNBatchNormalizationState*)state
                 destinationImages:(MPSImageBatch*)destinationImages {
  const char* what = "MPSCNNBatchNormalization";
  const Pictures sources = apple::read(sourceImages, commandBuffer, what);
  const Pictures results = apple::write(destinationImages, commandBuffer, what, {sourceImages});
  if (sources.size() != results.size()) apple::broken(what, "its batches differ in size");
  take_step(state, Step::kNormalization, sources.size(), commandBuffer, what);
  if (state->_batchNormalization != self)
    apple::broken(what, "its state was made by another kernel");
  for (const Picture& source : sources)
    if (source.channels != _numberOfFeatureChannels)
      apple::broken(what, "a source has not its number of channels");
  apple::add_work(commandBuffer, what,
                  [own = inside_MPSCNNBatchNormalization, sources, results, kept = State(state)] {
                    std::copy(own->gamma.begin(), own->gamma.end(), values(kept, kGamma));
                    std::copy(own->beta.begin(), own->beta.end(), values(kept, kBeta));
                    for (std::size_t index = 0; index < sources.size(); ++index)
                      sources[index].each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
                        const Normalized at = normalize(kept, sources[index], x, y, c);
                        results[index].set(
                            x, y, c, static_cast<float>(own->neuron.value(at.before_neuron, c)));
                      });
                  });
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                  sourceImage:(MPSImage*)sourceImage
      batchNormalizationState:(MPSCNNBatchNormalizationState*)state
             destinationImage:(MPSImage*)destinationImage {
  [self encodeBatchToCommandBuffer:commandBuffer
                      sourceImages:one(sourceImage)
           batchNormalizationState:state
                 destinationImages:one(destinationImage)];
}
@end

@implementation MPSCNNBatchNormalizationStatistics
MEMBERS(MPSCNNBatchNormalizationStatistics)
- (void)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                      sourceImages:(MPSImageBatch*)sourceImages
           batchNormalizationState:(MPSCNNBatchNormalizationState*)state {
  const char* what = "MPSCNNBatchNormalizationStatistics";
  const Pictures sources = apple::read(sourceImages, commandBuffer, what);
  take_step(state, Step::kStatistics, sources.size(), commandBuffer, what);
  for (const Picture& source : sources)
    if (source.channels != inside(state).sums.size())
      apple::broken(what, "a source has not the channels of the state");
  apple::add_work(commandBuffer, what,
                  [sources, kept = State(state)] { add_statistics(kept, sources); });
}
@end
