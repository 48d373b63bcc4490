// Normalization of each image by itself: over each channel, or over groups of neighbouring
// channels.
//   x^ = (x - mean) / sqrt(variance + epsilon),  y = gamma x^ + beta
// with the biased variance, and its derivative: Apple's pages show the formula and no gradient. How
// states are used is inferred: each image has its own, which has what the gradient kernel needs
// from the forward kernel on that was encoded with it; its gamma and beta are the kernel's own
// buffers.
// https://developer.apple.com/documentation/metalperformanceshaders/mpscnninstancenormalization
// https://developer.apple.com/documentation/metalperformanceshaders/mpscnngroupnormalization
#include <cfloat>
#include <cmath>

#include "kernel.h"

namespace {

using apple::Extent;
using apple::Picture;
using Buffer = apple::Kept<id<MTLBuffer>>;
// The other protocol has the same methods of the names that are used here.
using Source = id<MPSCNNInstanceNormalizationDataSource>;

// What a kernel keeps.
struct Groups {
  NSUInteger channels, groups;
  Buffer gamma, beta;

  Groups(id<MTLDevice> device, NSUInteger channels, NSUInteger groups)
      : channels(channels),
        groups(groups),
        gamma(apple::make_buffer(device, channels * sizeof(float))),
        beta(apple::make_buffer(device, channels * sizeof(float))) {
    apple::expect(channels != 0 && groups != 0 && channels % groups == 0,
                  "a normalization of groups that do not divide its channels");
  }
  // Null means 1, and 0.
  void load(Source source) {
    apple::expect(![(id)source respondsToSelector:@selector(load)] || [source load],
                  "the data source of a normalization could not be loaded");
    const float *new_gamma = [source gamma], *new_beta = [source beta];
    for (NSUInteger c = 0; c < channels; ++c) {
      apple::floats(gamma)[c] = new_gamma == nullptr ? 1 : new_gamma[c];
      apple::floats(beta)[c] = new_beta == nullptr ? 0 : new_beta[c];
    }
    if ([(id)source respondsToSelector:@selector(purge)]) [source purge];
  }
};

float epsilon_of(Source source) {
  return [(id)source respondsToSelector:@selector(epsilon)] ? [source epsilon] : FLT_MIN;
}

void reload(std::shared_ptr<Groups> of, MPSCNNNormalizationGammaAndBetaState* state,
            id<MTLCommandBuffer> commands, const char* what) {
  apple::read_state(state, commands, what);
  const NSUInteger bytes = of->channels * sizeof(float);
  if ([state->_gamma length] < bytes || [state->_beta length] < bytes)
    apple::broken(what, "a buffer of the state is too short");
  apple::add_work(commands, what, [of, gamma = Buffer(state->_gamma), beta = Buffer(state->_beta)] {
    std::copy_n(apple::floats(gamma), of->channels, apple::floats(of->gamma));
    std::copy_n(apple::floats(beta), of->channels, apple::floats(of->beta));
  });
}

// What the forward kernel leaves for the gradient kernel.
struct Passed {
  std::shared_ptr<Groups> of;
  Buffer gamma_gradient, beta_gradient;
  double epsilon = 0;
  bool forward = false, backward = false;  // whether it was encoded
};

// Calls visit(x, y, channel) for each value of a group.
template <class Visit>
void each_of(const Groups& of, NSUInteger group, const Picture& picture, Visit visit) {
  const NSUInteger count = of.channels / of.groups;
  for (NSUInteger c = group * count; c < (group + 1) * count; ++c)
    for (NSUInteger y = 0; y < picture.height(); ++y)
      for (NSUInteger x = 0; x < picture.width(); ++x) visit(x, y, c);
}

// Of one group.
struct Statistics {
  double count, mean, inverse;  // 1 / sqrt(variance + epsilon)

  Statistics(const Groups& of, NSUInteger group, double epsilon, const Picture& source)
      : count(static_cast<double>(of.channels / of.groups * source.width() * source.height())) {
    double sum = 0, squares = 0;
    each_of(of, group, source,
            [&](NSUInteger x, NSUInteger y, NSUInteger c) { sum += source.get(x, y, c); });
    mean = sum / count;
    each_of(of, group, source, [&](NSUInteger x, NSUInteger y, NSUInteger c) {
      squares += std::pow(source.get(x, y, c) - mean, 2);
    });
    inverse = 1 / std::sqrt(squares / count + epsilon);
  }
  double normalized(double x) const { return (x - mean) * inverse; }
};

apple::UnaryWork forward(std::shared_ptr<Groups> of, double epsilon, Passed* passed) {
  if (passed != nullptr) {
    apple::expect(passed->of == of, "a state of another normalization kernel");
    passed->forward = true;
    passed->epsilon = epsilon;
  }
  return [=](const Picture& from, const Picture& to) {
    const float *gamma = apple::floats(of->gamma), *beta = apple::floats(of->beta);
    for (NSUInteger group = 0; group < of->groups; ++group) {
      const Statistics s(*of, group, epsilon, from);
      each_of(*of, group, from, [&](NSUInteger x, NSUInteger y, NSUInteger c) {
        to.set(x, y, c, static_cast<float>(gamma[c] * s.normalized(from.get(x, y, c)) + beta[c]));
      });
    }
  };
}

// dx = (gamma e - mean(gamma e) - x^ mean(gamma e x^)) / sqrt(variance + epsilon)
apple::BinaryWork backward(std::shared_ptr<Passed> passed) {
  apple::expect(passed->forward,
                "the gradient of a normalization before the forward kernel with its state");
  apple::expect(!passed->backward, "a normalization's state of one image is used for two");
  passed->backward = true;
  return [=](const Picture& gradient, const Picture& source, const Picture& to) {
    const Groups& of = *passed->of;
    const float* gamma = apple::floats(of.gamma);
    std::vector<double> of_gamma(of.channels), of_beta(of.channels);
    for (NSUInteger group = 0; group < of.groups; ++group) {
      const Statistics s(of, group, passed->epsilon, source);
      double sum = 0, along = 0;  // of gamma e, and of gamma e x^
      each_of(of, group, source, [&](NSUInteger x, NSUInteger y, NSUInteger c) {
        const double e = gradient.get(x, y, c);
        const double with_x = e * s.normalized(source.get(x, y, c));
        of_beta[c] += e;
        of_gamma[c] += with_x;
        sum += gamma[c] * e;
        along += gamma[c] * with_x;
      });
      each_of(of, group, source, [&](NSUInteger x, NSUInteger y, NSUInteger c) {
        const double moved = gamma[c] * double{gradient.get(x, y, c)} - sum / s.count -
                             s.normalized(source.get(x, y, c)) * along / s.count;
        to.set(x, y, c, static_cast<float>(moved * s.inverse));
      });
    }
    std::copy(of_gamma.begin(), of_gamma.end(), apple::floats(passed->gamma_gradient));
    std::copy(of_beta.begin(), of_beta.end(), apple::floats(passed->beta_gradient));
  };
}

}  // namespace

struct MPSCNNInstanceNormalizationInside : Groups {
  using Groups::Groups;
};
struct MPSCNNGroupNormalizationInside : Groups {
  using Groups::Groups;
};
struct MPSCNNInstanceNormalizationGradientStateInside : Passed {};
struct MPSCNNGroupNormalizationGradientStateInside : Passed {};

// --- instance
// -------------------------------------------------------------------------------------

@implementation MPSCNNInstanceNormalizationGradientState
MEMBERS(MPSCNNInstanceNormalizationGradientState)
@end

@implementation MPSCNNInstanceNormalization
MEMBERS(MPSCNNInstanceNormalization)
- (instancetype)initWithDevice:(id<MTLDevice>)device
                    dataSource:(id<MPSCNNInstanceNormalizationDataSource>)dataSource {
  apple::expect(dataSource != nil, "a normalization without a data source");
  self = [super initWithDevice:device];
  _dataSource = [dataSource retain];
  _epsilon = epsilon_of((Source)(id)dataSource);
  inside_MPSCNNInstanceNormalization = std::make_shared<MPSCNNInstanceNormalizationInside>(
      device, [dataSource numberOfFeatureChannels], [dataSource numberOfFeatureChannels]);
  [self reloadGammaAndBetaFromDataSource];
  return self;
}
- (void)reloadGammaAndBetaFromDataSource {
  inside_MPSCNNInstanceNormalization->load((Source)(id)_dataSource);
}
- (void)reloadDataSource:(id<MPSCNNInstanceNormalizationDataSource>)dataSource {
  apple::expect(
      [dataSource numberOfFeatureChannels] == inside_MPSCNNInstanceNormalization->channels,
      "a normalization is given a data source of other channels");
  [dataSource retain];
  [_dataSource release];
  _dataSource = dataSource;
  [self reloadGammaAndBetaFromDataSource];
}
- (void)reloadGammaAndBetaWithCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                          gammaAndBetaState:(MPSCNNNormalizationGammaAndBetaState*)state {
  reload(inside_MPSCNNInstanceNormalization, state, commandBuffer,
         "the reload of MPSCNNInstanceNormalization");
}
- (void)apple_checkSource:(Extent)source result:(Extent)result {
  [super apple_checkSource:source result:result];
  if (source.channels != inside_MPSCNNInstanceNormalization->channels)
    apple::broken("MPSCNNInstanceNormalization", "a source has not its number of channels");
}
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  apple::expect(
      state == nil || [state isKindOfClass:[MPSCNNInstanceNormalizationGradientState class]],
      "the state of a normalization is one of another kernel");
  auto* given = (MPSCNNInstanceNormalizationGradientState*)state;
  return forward(
      inside_MPSCNNInstanceNormalization, _epsilon,
      given == nil ? nullptr : given->inside_MPSCNNInstanceNormalizationGradientState.get());
}
- (MPSState*)apple_stateForCommands:(id<MTLCommandBuffer>)commands
                             source:(MPSImage*)source
                        destination:(MPSImage*)destination {
  (void)source, (void)destination;
  const NSUInteger bytes = inside_MPSCNNInstanceNormalization->channels * sizeof(float);
  id<MTLBuffer> gamma = apple::make_buffer([self device], bytes);
  id<MTLBuffer> beta = apple::make_buffer([self device], bytes);
  auto* state = (MPSCNNInstanceNormalizationGradientState*)apple::make_state(
      [MPSCNNInstanceNormalizationGradientState class], commands, { gamma, beta });
  state->inside_MPSCNNInstanceNormalizationGradientState =
      std::make_shared<MPSCNNInstanceNormalizationGradientStateInside>(
          MPSCNNInstanceNormalizationGradientStateInside{
              {inside_MPSCNNInstanceNormalization, gamma, beta}});
  state->_instanceNormalization = [self retain];
  state->_gamma = [inside_MPSCNNInstanceNormalization->gamma.get() retain];
  state->_beta = [inside_MPSCNNInstanceNormalization->beta.get() retain];
  state->_gradientForGamma = [gamma retain];
  state->_gradientForBeta = [beta retain];
  return state;
}
@end

@implementation MPSCNNInstanceNormalizationGradient
MEMBERS(MPSCNNInstanceNormalizationGradient)
- (BOOL)apple_needsState {
  return YES;
}
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  return backward(((MPSCNNInstanceNormalizationGradientState*)state)
                      ->inside_MPSCNNInstanceNormalizationGradientState);
}
@end

// --- group
// ----------------------------------------------------------------------------------------

@implementation MPSCNNGroupNormalizationGradientState
MEMBERS(MPSCNNGroupNormalizationGradientState)
@end

@implementation MPSCNNGroupNormalization
MEMBERS(MPSCNNGroupNormalization)
- (instancetype)initWithDevice:(id<MTLDevice>)device
                    dataSource:(id<MPSCNNGroupNormalizationDataSource>)dataSource {
  apple::expect(dataSource != nil, "a normalization without a data source");
  self = [super initWithDevice:device];
  _dataSource = [dataSource retain];
  _epsilon = epsilon_of((Source)(id)dataSource);
  inside_MPSCNNGroupNormalization = std::make_shared<MPSCNNGroupNormalizationInside>(
      device, [dataSource numberOfFeatureChannels], [dataSource numberOfGroups]);
  [self reloadGammaAndBetaFromDataSource];
  return self;
}
- (void)reloadGammaAndBetaFromDataSource {
  inside_MPSCNNGroupNormalization->load((Source)(id)_dataSource);
}
- (void)reloadGammaAndBetaWithCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                          gammaAndBetaState:(MPSCNNNormalizationGammaAndBetaState*)state {
  reload(inside_MPSCNNGroupNormalization, state, commandBuffer,
         "the reload of MPSCNNGroupNormalization");
}
- (void)apple_checkSource:(Extent)source result:(Extent)result {
  [super apple_checkSource:source result:result];
  if (source.channels != inside_MPSCNNGroupNormalization->channels)
    apple::broken("MPSCNNGroupNormalization", "a source has not its number of channels");
}
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  apple::expect(state == nil || [state isKindOfClass:[MPSCNNGroupNormalizationGradientState class]],
                "the state of a normalization is one of another kernel");
  auto* given = (MPSCNNGroupNormalizationGradientState*)state;
  return forward(
      inside_MPSCNNGroupNormalization, _epsilon,
      given == nil ? nullptr : given->inside_MPSCNNGroupNormalizationGradientState.get());
}
- (MPSState*)apple_stateForCommands:(id<MTLCommandBuffer>)commands
                             source:(MPSImage*)source
                        destination:(MPSImage*)destination {
  (void)source, (void)destination;
  const NSUInteger bytes = inside_MPSCNNGroupNormalization->channels * sizeof(float);
  id<MTLBuffer> gamma = apple::make_buffer([self device], bytes);
  id<MTLBuffer> beta = apple::make_buffer([self device], bytes);
  auto* state = (MPSCNNGroupNormalizationGradientState*)apple::make_state(
      [MPSCNNGroupNormalizationGradientState class], commands, { gamma, beta });
  state->inside_MPSCNNGroupNormalizationGradientState =
      std::make_shared<MPSCNNGroupNormalizationGradientStateInside>(
          MPSCNNGroupNormalizationGradientStateInside{
              {inside_MPSCNNGroupNormalization, gamma, beta}});
  state->_groupNormalization = [self retain];
  state->_gamma = [inside_MPSCNNGroupNormalization->gamma.get() retain];
  state->_beta = [inside_MPSCNNGroupNormalization->beta.get() retain];
  state->_gradientForGamma = [gamma retain];
  state->_gradientForBeta = [beta retain];
  return state;
}
@end

@implementation MPSCNNGroupNormalizationGradient
MEMBERS(MPSCNNGroupNormalizationGradient)
- (BOOL)apple_needsState {
  return YES;
}
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  return backward(((MPSCNNGroupNormalizationGradientState*)state)
                      ->inside_MPSCNNGroupNormalizationGradientState);
}
@end
