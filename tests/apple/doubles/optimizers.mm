// Optimizers over vectors. Values may be updated in place; momentum, velocity and sums are.
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnoptimizer
#include <algorithm>
#include <array>
#include <cmath>

#include "image.h"
#include "matrix.h"

namespace {

using apple::Matrix;

// What all optimizers do to a gradient first.
struct Preparation {
  float rescale, clip_min, clip_max, regularization;
  bool clips;
  MPSNNRegularizationType kind;

  double operator()(double gradient, double value) const {
    if (clips) gradient = std::clamp<double>(gradient, clip_min, clip_max);
    gradient *= rescale;
    if (kind == MPSNNRegularizationTypeL1)
      return gradient + (value > 0 ? regularization : value < 0 ? -regularization : 0);
    if (kind == MPSNNRegularizationTypeL2) return gradient + regularization * value;
    return gradient;
  }
};

// Vectors of one length.
template <class... Vector>
std::array<Matrix, sizeof...(Vector)> read_vectors(const char* what, Vector*... vectors) {
  const std::array read = {apple::read_vector(vectors, what)...};
  for (const Matrix& vector : read)
    if (vector.rows != 1 || vector.columns != read[0].columns)
      apple::broken(what, "its vectors differ in length");
  return read;
}

}  // namespace

@implementation MPSNNOptimizerDescriptor
MEMBERS(MPSNNOptimizerDescriptor)
- (instancetype)initWithLearningRate:(float)learningRate
                     gradientRescale:(float)gradientRescale
               applyGradientClipping:(BOOL)applyGradientClipping
                     gradientClipMax:(float)gradientClipMax
                     gradientClipMin:(float)gradientClipMin
                  regularizationType:(MPSNNRegularizationType)regularizationType
                 regularizationScale:(float)regularizationScale {
  self = [super init];
  _learningRate = learningRate;
  _gradientRescale = gradientRescale;
  _applyGradientClipping = applyGradientClipping;
  _gradientClipMax = gradientClipMax;
  _gradientClipMin = gradientClipMin;
  _regularizationType = regularizationType;
  _regularizationScale = regularizationScale;
  return self;
}
- (instancetype)initWithLearningRate:(float)learningRate
                     gradientRescale:(float)gradientRescale
                  regularizationType:(MPSNNRegularizationType)regularizationType
                 regularizationScale:(float)regularizationScale {
  return [self initWithLearningRate:learningRate
                    gradientRescale:gradientRescale
              applyGradientClipping:NO
                    gradientClipMax:0
                    gradientClipMin:0
                 regularizationType:regularizationType
                regularizationScale:regularizationScale];
}
+ (instancetype)optimizerDescriptorWithLearningRate:(float)learningRate
                                    gradientRescale:(float)gradientRescale
                              applyGradientClipping:(BOOL)applyGradientClipping
                                    gradientClipMax:(float)gradientClipMax
                                    gradientClipMin:(float)gradientClipMin
                                 regularizationType:(MPSNNRegularizationType)regularizationType
                                regularizationScale:(float)regularizationScale {
  return [[[self alloc] initWithLearningRate:learningRate
                             gradientRescale:gradientRescale
                       applyGradientClipping:applyGradientClipping
                             gradientClipMax:gradientClipMax
                             gradientClipMin:gradientClipMin
                          regularizationType:regularizationType
                         regularizationScale:regularizationScale] autorelease];
}
+ (instancetype)optimizerDescriptorWithLearningRate:(float)learningRate
                                    gradientRescale:(float)gradientRescale
                                 regularizationType:(MPSNNRegularizationType)regularizationType
                                regularizationScale:(float)regularizationScale {
  return [[[self alloc] initWithLearningRate:learningRate
                             gradientRescale:gradientRescale
                          regularizationType:regularizationType
                         regularizationScale:regularizationScale] autorelease];
}
@end

@implementation MPSNNOptimizer
MEMBERS(MPSNNOptimizer)
- (instancetype)apple_initWithDevice:(id<MTLDevice>)device
                          descriptor:(MPSNNOptimizerDescriptor*)descriptor {
  self = [super initWithDevice:device];
  if (descriptor == nil) apple::fail("an optimizer without its descriptor");
  _learningRate = descriptor->_learningRate;
  _gradientRescale = descriptor->_gradientRescale;
  _applyGradientClipping = descriptor->_applyGradientClipping;
  _gradientClipMax = descriptor->_gradientClipMax;
  _gradientClipMin = descriptor->_gradientClipMin;
  _regularizationScale = descriptor->_regularizationScale;
  _regularizationType = descriptor->_regularizationType;
  return self;
}
// Of what is encoded from now on.
- (void)setLearningRate:(float)newLearningRate {
  _learningRate = newLearningRate;
}
- (Preparation)apple_preparation {
  return {_gradientRescale,
          _gradientClipMin,
          _gradientClipMax,
          _regularizationScale,
          _applyGradientClipping != NO,
          _regularizationType};
}
@end

namespace {
MPSNNOptimizerDescriptor* plain(float learning_rate) {
  return [MPSNNOptimizerDescriptor optimizerDescriptorWithLearningRate:learning_rate
                                                       gradientRescale:1
                                                    regularizationType:MPSNNRegularizationTypeNone
                                                   regularizationScale:0];
}
}  // namespace

@implementation MPSNNOptimizerStochasticGradientDescent
MEMBERS(MPSNNOptimizerStochasticGradientDescent)
- (instancetype)initWithDevice:(id<MTLDevice>)device learningRate:(float)learningRate {
  return [self initWithDevice:device
                momentumScale:0
          useNesterovMomentum:NO
          optimizerDescriptor:plain(learningRate)];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
                 momentumScale:(float)momentumScale
           useNesterovMomentum:(BOOL)useNesterovMomentum
           optimizerDescriptor:(MPSNNOptimizerDescriptor*)optimizerDescriptor {
  self = [super apple_initWithDevice:device descriptor:optimizerDescriptor];
  _momentumScale = momentumScale;
  _useNesterovMomentum = _useNestrovMomentum = useNesterovMomentum;
  return self;
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
          inputGradientVector:(MPSVector*)inputGradientVector
            inputValuesVector:(MPSVector*)inputValuesVector
          inputMomentumVector:(MPSVector*)inputMomentumVector
           resultValuesVector:(MPSVector*)resultValuesVector {
  const char* what = "MPSNNOptimizerStochasticGradientDescent";
  const bool has_momentum = inputMomentumVector != nil;
  if (!has_momentum && _momentumScale != 0) apple::broken(what, "momentum without its vector");
  const auto [gradient, values, momentum, result] =
      read_vectors(what, inputGradientVector, inputValuesVector,
                   has_momentum ? inputMomentumVector : inputValuesVector, resultValuesVector);
  apple::add_work(commandBuffer, what,
                  [=, prepare = [self apple_preparation], rate = double{_learningRate},
                   scale = double{_momentumScale}, nesterov = _useNesterovMomentum != NO] {
                    for (NSUInteger i = 0; i < values.columns; ++i) {
                      const double value = values.at(0, 0, i);
                      const double g = prepare(gradient.at(0, 0, i), value);
                      double step = rate * g;
                      if (has_momentum) {
                        float& m = momentum.at(0, 0, i);
                        m = static_cast<float>(scale * m + (nesterov ? g : rate * g));
                        step = nesterov ? rate * (g + scale * m) : m;
                      }
                      result.at(0, 0, i) = static_cast<float>(value - step);
                    }
                  });
}
@end

@implementation MPSNNOptimizerRMSProp
MEMBERS(MPSNNOptimizerRMSProp)
- (instancetype)initWithDevice:(id<MTLDevice>)device learningRate:(float)learningRate {
  return [self initWithDevice:device
                        decay:0.9
                      epsilon:1e-8f
          optimizerDescriptor:plain(learningRate)];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
                         decay:(double)decay
                       epsilon:(float)epsilon
           optimizerDescriptor:(MPSNNOptimizerDescriptor*)optimizerDescriptor {
  self = [super apple_initWithDevice:device descriptor:optimizerDescriptor];
  _decay = decay;
  _epsilon = epsilon;
  return self;
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
          inputGradientVector:(MPSVector*)inputGradientVector
            inputValuesVector:(MPSVector*)inputValuesVector
      inputSumOfSquaresVector:(MPSVector*)inputSumOfSquaresVector
           resultValuesVector:(MPSVector*)resultValuesVector {
  const char* what = "MPSNNOptimizerRMSProp";
  const auto [gradient, values, squares, result] = read_vectors(
      what, inputGradientVector, inputValuesVector, inputSumOfSquaresVector, resultValuesVector);
  apple::add_work(commandBuffer, what,
                  [=, prepare = [self apple_preparation], rate = double{_learningRate},
                   decay = _decay, epsilon = double{_epsilon}] {
                    for (NSUInteger i = 0; i < values.columns; ++i) {
                      const double value = values.at(0, 0, i);
                      const double g = prepare(gradient.at(0, 0, i), value);
                      float& s = squares.at(0, 0, i);
                      s = static_cast<float>(decay * s + (1 - decay) * g * g);
                      result.at(0, 0, i) =
                          static_cast<float>(value - rate * g / (std::sqrt(double{s}) + epsilon));
                    }
                  });
}
@end

@implementation MPSNNOptimizerAdam
MEMBERS(MPSNNOptimizerAdam)
- (instancetype)initWithDevice:(id<MTLDevice>)device learningRate:(float)learningRate {
  return [self initWithDevice:device
                        beta1:0.9
                        beta2:0.999
                      epsilon:1e-8f
                     timeStep:0
          optimizerDescriptor:plain(learningRate)];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
                         beta1:(double)beta1
                         beta2:(double)beta2
                       epsilon:(float)epsilon
                      timeStep:(NSUInteger)timeStep
           optimizerDescriptor:(MPSNNOptimizerDescriptor*)optimizerDescriptor {
  self = [super apple_initWithDevice:device descriptor:optimizerDescriptor];
  _beta1 = beta1, _beta2 = beta2;
  _epsilon = epsilon;
  _timeStep = timeStep;
  return self;
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
          inputGradientVector:(MPSVector*)inputGradientVector
            inputValuesVector:(MPSVector*)inputValuesVector
          inputMomentumVector:(MPSVector*)inputMomentumVector
          inputVelocityVector:(MPSVector*)inputVelocityVector
           resultValuesVector:(MPSVector*)resultValuesVector {
  [self encodeToCommandBuffer:commandBuffer
          inputGradientVector:inputGradientVector
            inputValuesVector:inputValuesVector
          inputMomentumVector:inputMomentumVector
          inputVelocityVector:inputVelocityVector
        maximumVelocityVector:nil
           resultValuesVector:resultValuesVector];
}
// Each encoding is a step: it raises the time and uses the new one. With AMSGrad the largest
// velocity so far stands in place of the velocity, without it the velocity itself.
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
          inputGradientVector:(MPSVector*)inputGradientVector
            inputValuesVector:(MPSVector*)inputValuesVector
          inputMomentumVector:(MPSVector*)inputMomentumVector
          inputVelocityVector:(MPSVector*)inputVelocityVector
        maximumVelocityVector:(MPSVector*)maximumVelocityVector
           resultValuesVector:(MPSVector*)resultValuesVector {
  const char* what = "MPSNNOptimizerAdam";
  MPSVector* most = maximumVelocityVector == nil ? inputVelocityVector : maximumVelocityVector;
  const auto [gradient, values, momentum, velocity, maximum, result] =
      read_vectors(what, inputGradientVector, inputValuesVector, inputMomentumVector,
                   inputVelocityVector, most, resultValuesVector);
  const auto t = static_cast<double>(++_timeStep);
  const double rate =
      _learningRate * std::sqrt(1 - std::pow(_beta2, t)) / (1 - std::pow(_beta1, t));
  apple::add_work(commandBuffer, what,
                  [=, prepare = [self apple_preparation], beta1 = _beta1, beta2 = _beta2,
                   epsilon = double{_epsilon}] {
                    for (NSUInteger i = 0; i < values.columns; ++i) {
                      const double value = values.at(0, 0, i);
                      const double g = prepare(gradient.at(0, 0, i), value);
                      float &m = momentum.at(0, 0, i), &v = velocity.at(0, 0, i);
                      float& most = maximum.at(0, 0, i);
                      m = static_cast<float>(beta1 * m + (1 - beta1) * g);
                      v = static_cast<float>(beta2 * v + (1 - beta2) * g * g);
                      most = std::max(most, v);
                      result.at(0, 0, i) = static_cast<float>(
                          value - rate * m / (std::sqrt(double{most}) + epsilon));
                    }
                  });
}
@end
