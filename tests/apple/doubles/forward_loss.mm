// Losses whose gradient is a kernel of its own. A state has the forward kernel's weight, smoothing,
// epsilon and delta, which the gradient kernel takes in place of its own.
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnforwardloss
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnlossgradient
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnninitialgradient
#include "loss_terms.h"

namespace {

using apple::Extent;
using apple::Loss;
using apple::LossTerms;
using apple::Picture;
using apple::Pictures;

std::vector<LossTerms> terms_of(const Loss& loss, const Pictures& sources, MPSImageBatch* labels,
                                MPSImageBatch* weights, id<MTLCommandBuffer> commands,
                                const char* what) {
  const Pictures truth = apple::read(labels, commands, what);
  const Pictures factors = weights == nil ? Pictures{} : apple::read(weights, commands, what);
  if (truth.size() != sources.size() || (weights != nil && factors.size() != sources.size()))
    apple::broken(what, "its batches differ in size");
  std::vector<LossTerms> images;
  for (std::size_t index = 0; index < sources.size(); ++index) {
    images.push_back({sources[index], truth[index], {}});
    if (weights != nil) images.back().weights = factors[index];
  }
  apple::check_terms(loss, images, what);
  return images;
}

// Fails unless each picture has the size of what is reported of its source.
void check_reports(const Loss& loss, const Pictures& reports, const Pictures& sources,
                   const char* what) {
  if (reports.size() != sources.size()) apple::broken(what, "its batches differ in size");
  for (std::size_t index = 0; index < sources.size(); ++index) {
    const Picture &source = sources[index], &report = reports[index];
    const Extent size{report.width(), report.height(), report.channels};
    if (!(size == loss.reported_of({source.width(), source.height(), source.channels})))
      apple::broken(what, "a loss has not the size of what is reported");
  }
}

std::vector<double> numbers_of(const Loss& loss) {
  return {loss.weight, loss.smoothing, loss.epsilon, loss.delta};
}

}  // namespace

@implementation MPSNNForwardLoss
MEMBERS(MPSNNForwardLoss)
- (instancetype)initWithDevice:(id<MTLDevice>)device
                lossDescriptor:(MPSCNNLossDescriptor*)lossDescriptor {
  self = [super initWithDevice:device];
  apple::take_loss(self, lossDescriptor);
  return self;
}
- (void)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                      sourceImages:(MPSImageBatch*)sourceImages
                            labels:(MPSImageBatch*)labels
                           weights:(MPSImageBatch*)weights
                 destinationStates:(MPSStateBatch*)destinationStates
                 destinationImages:(MPSImageBatch*)destinationImages {
  const char* what = "MPSNNForwardLoss";
  const Loss loss = apple::loss_of(self);
  const Pictures sources = apple::read(sourceImages, commandBuffer, what);
  const auto images = terms_of(loss, sources, labels, weights, commandBuffer, what);
  const Pictures reports =
      apple::write(destinationImages, commandBuffer, what, {sourceImages, labels, weights});
  check_reports(loss, reports, sources, what);
  if (destinationStates != nil && [destinationStates count] != sources.size())
    apple::broken(what, "its batches differ in size");
  for (MPSState* state in destinationStates) {
    apple::use_state(state, commandBuffer, what);
    state->inside_MPSState->numbers = numbers_of(loss);
  }
  apple::add_work(commandBuffer, what, [=] { apple::report(loss, images, reports); });
}
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  apple::broken("MPSNNForwardLoss", "is encoded with labels");
}
- (MPSState*)apple_stateForCommands:(id<MTLCommandBuffer>)commands
                             source:(MPSImage*)source
                        destination:(MPSImage*)destination {
  MPSState* state = [super apple_stateForCommands:commands source:source destination:destination];
  state->inside_MPSState->numbers = numbers_of(apple::loss_of(self));
  return state;
}
@end

@implementation MPSNNLossGradient
MEMBERS(MPSNNLossGradient)
- (instancetype)initWithDevice:(id<MTLDevice>)device
                lossDescriptor:(MPSCNNLossDescriptor*)lossDescriptor {
  self = [super initWithDevice:device];
  apple::take_loss(self, lossDescriptor);
  return self;
}
- (Loss)apple_lossOfStates:(MPSStateBatch*)states {
  Loss loss = apple::loss_of(self);
  if (states == nil) return loss;
  for (MPSState* state in states)
    if (state->inside_MPSState->maker != [MPSNNForwardLoss class])
      apple::broken("MPSNNLossGradient", "its state was not made by MPSNNForwardLoss");
  const auto& numbers = [states objectAtIndex:0]->inside_MPSState->numbers;
  loss.weight = numbers[0], loss.smoothing = numbers[1];
  loss.epsilon = numbers[2], loss.delta = numbers[3];
  return loss;
}
- (void)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                   sourceGradients:(MPSImageBatch*)sourceGradients
                      sourceImages:(MPSImageBatch*)sourceImages
                            labels:(MPSImageBatch*)labels
                           weights:(MPSImageBatch*)weights
                      sourceStates:(MPSStateBatch*)sourceStates
              destinationGradients:(MPSImageBatch*)destinationGradients {
  const char* what = "MPSNNLossGradient";
  const Loss loss = [self apple_lossOfStates:sourceStates];
  if (sourceStates != nil) apple::read_states(sourceStates, commandBuffer, what);
  const Pictures incoming = apple::read(sourceGradients, commandBuffer, what);
  const Pictures sources = apple::read(sourceImages, commandBuffer, what);
  check_reports(loss, incoming, sources, what);
  const auto images = terms_of(loss, sources, labels, weights, commandBuffer, what);
  const Pictures results = apple::write(destinationGradients, commandBuffer, what,
                                        {sourceGradients, sourceImages, labels, weights});
  if (results.size() != sources.size()) apple::broken(what, "its batches differ in size");
  for (std::size_t index = 0; index < sources.size(); ++index) {
    const Picture &source = sources[index], &result = results[index];
    if (result.width() != source.width() || result.height() != source.height() ||
        result.channels != source.channels)
      apple::broken(what, "its result has not the size of the forward source");
  }
  apple::add_work(commandBuffer, what, [=, by_labels = _computeLabelGradients != NO] {
    apple::differentiate(loss, images, incoming, by_labels, results);
  });
}
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  apple::broken("MPSNNLossGradient", "is encoded with labels");
}
@end

@implementation MPSNNInitialGradient
MEMBERS(MPSNNInitialGradient)
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return [](const Picture& from, const Picture& to) {
    from.each([&](NSUInteger x, NSUInteger y, NSUInteger c) { to.set(x, y, c, 1); });
  };
}
@end
