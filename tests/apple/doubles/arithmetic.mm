// Arithmetic of two images with broadcasting: a stride of zero repeats the first texel or channel.
// A gradient kernel takes the gradient and the other image, and sums over what was repeated.
// https://developer.apple.com/documentation/metalperformanceshaders/mpscnnarithmetic
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "arithmetic.h"

namespace {

using apple::Extent;
using apple::Picture;

using Operation = std::function<double(double, double)>;
double add(double a, double b) { return a + b; }
double subtract(double a, double b) { return a - b; }
double multiply(double a, double b) { return a * b; }
double divide(double a, double b) { return a / b; }

// Steps of an image along x, y and channels: 0 or 1.
struct Steps {
  NSUInteger x, y, channel;
  float get(const Picture& picture, NSUInteger px, NSUInteger py, NSUInteger c) const {
    return picture.get(px * x, py * y, c * channel);
  }
};

void expect_steps(const Steps& steps) {
  apple::expect(steps.x <= 1 && steps.y <= 1 && steps.channel <= 1,
                "strides of arithmetic are 0 or 1");
}

void expect_covers(Extent source, Extent result, const Steps& steps, const char* what) {
  if ((steps.x == 1 && source.width != result.width) ||
      (steps.y == 1 && source.height != result.height) ||
      (steps.channel == 1 && source.channels != result.channels))
    apple::broken(what, "an image that is not repeated has not the size of the result");
}

}  // namespace

@implementation MPSCNNArithmetic
MEMBERS(MPSCNNArithmetic)
- (instancetype)initWithDevice:(id<MTLDevice>)device {
  self = [super initWithDevice:device];
  _primaryScale = _secondaryScale = 1;
  _primaryStrideInFeatureChannels = _secondaryStrideInFeatureChannels = 1;
  _minimumValue = -INFINITY;
  _maximumValue = INFINITY;
  return self;
}
- (Steps)apple_primarySteps {
  return {_primaryStrideInPixelsX, _primaryStrideInPixelsY, _primaryStrideInFeatureChannels};
}
- (Steps)apple_secondarySteps {
  return {_secondaryStrideInPixelsX, _secondaryStrideInPixelsY, _secondaryStrideInFeatureChannels};
}
- (void)apple_checkPrimary:(Extent)primary secondary:(Extent)secondary result:(Extent)result {
  expect_steps([self apple_primarySteps]);
  expect_steps([self apple_secondarySteps]);
  expect_covers(primary, result, [self apple_primarySteps], "MPSCNNArithmetic");
  expect_covers(secondary, result, [self apple_secondarySteps], "MPSCNNArithmetic");
}
// What a subclass computes.
- (Operation)apple_operation {
  apple::fail("arithmetic of no operation");
}
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  apple::expect(state == nil || [state isKindOfClass:[MPSCNNArithmeticGradientState class]],
                "the state of arithmetic is one of another kernel");
  return [operation = [self apple_operation], first = [self apple_primarySteps],
          second = [self apple_secondarySteps], ps = double{_primaryScale},
          ss = double{_secondaryScale}, bias = double{_bias}, least = double{_minimumValue},
          most = double{_maximumValue}, mask = apple::clamp_mask(state)](
             const Picture& primary, const Picture& secondary, const Picture& to) {
    if (mask != nullptr) mask->clear();
    to.each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
      const double value =
          operation(ps * first.get(primary, x, y, c), ss * second.get(secondary, x, y, c)) + bias;
      to.set(x, y, c, static_cast<float>(std::clamp(value, least, most)));
      if (mask != nullptr) mask->push_back(value > least && value < most);
    });
  };
}
@end

@implementation MPSCNNAdd
MEMBERS(MPSCNNAdd)
- (Operation)apple_operation {
  return add;
}
@end

@implementation MPSCNNSubtract
MEMBERS(MPSCNNSubtract)
- (Operation)apple_operation {
  return subtract;
}
@end

@implementation MPSCNNMultiply
MEMBERS(MPSCNNMultiply)
- (Operation)apple_operation {
  return multiply;
}
@end

@implementation MPSCNNDivide
MEMBERS(MPSCNNDivide)
- (Operation)apple_operation {
  return divide;
}
@end

// What is no farther apart than the threshold is equal.
@implementation MPSNNCompare
MEMBERS(MPSNNCompare)
- (Operation)apple_operation {
  return [type = _comparisonType, threshold = double{_threshold}](double a, double b) -> double {
    const bool equal = std::abs(a - b) <= threshold;
    switch (type) {
      case MPSNNComparisonTypeEqual:
        return equal;
      case MPSNNComparisonTypeNotEqual:
        return !equal;
      case MPSNNComparisonTypeLess:
        return a < b && !equal;
      case MPSNNComparisonTypeLessOrEqual:
        return a < b || equal;
      case MPSNNComparisonTypeGreater:
        return a > b && !equal;
      default:
        return a > b || equal;
    }
  };
}
@end

// --- gradient ------------------------------------------------------------------------------------

@implementation MPSCNNArithmeticGradient
MEMBERS(MPSCNNArithmeticGradient)
// For the initializers, which Apple's subclasses have and this class has not.
- (instancetype)apple_initWithDevice:(id<MTLDevice>)device secondary:(BOOL)secondary {
  self = [super initWithDevice:device];
  _isSecondarySourceFilter = secondary;
  _primaryScale = _secondaryScale = 1;
  _secondaryStrideInFeatureChannels = 1;
  _minimumValue = -INFINITY;
  _maximumValue = INFINITY;
  return self;
}
- (Steps)apple_steps {
  return {_secondaryStrideInPixelsX, _secondaryStrideInPixelsY, _secondaryStrideInFeatureChannels};
}
- (void)apple_checkPrimary:(Extent)primary secondary:(Extent)secondary result:(Extent)result {
  (void)secondary;
  expect_steps([self apple_steps]);
  if ((result.width != 1 && result.width != primary.width) ||
      (result.height != 1 && result.height != primary.height) ||
      (result.channels != 1 && result.channels != primary.channels))
    apple::broken("MPSCNNArithmeticGradient", "its result has not the size of the forward source");
}
// Whether the gradient is times the other image.
- (bool)apple_multiplies {
  return false;
}
- (double)apple_sign {
  return 1;
}
// Σ of the gradient over what was repeated, but for what the forward kernel has clamped.
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  apple::expect(state != nil || (_minimumValue == -INFINITY && _maximumValue == INFINITY),
                "a clamp in a gradient of arithmetic wants the state of the forward kernel");
  return [multiplies = [self apple_multiplies], steps = [self apple_steps],
          ps = [self apple_sign] * double { _primaryScale }, ss = double{_secondaryScale},
          mask = apple::clamp_mask(state)](const Picture& gradient, const Picture& other,
                                           const Picture& to) {
    apple::expect(mask == nullptr || !mask->empty(),
                  "the gradient of arithmetic before the forward kernel with its state");
    std::vector<double> sums(to.width() * to.height() * to.channels);
    std::size_t element = 0;
    gradient.each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
      if (mask != nullptr && !(*mask)[element++]) return;
      const double value =
          ps * gradient.get(x, y, c) * (multiplies ? ss * steps.get(other, x, y, c) : 1.0);
      const NSUInteger tx = std::min(x, to.width() - 1), ty = std::min(y, to.height() - 1);
      sums[(ty * to.width() + tx) * to.channels + std::min(c, to.channels - 1)] += value;
    });
    to.each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
      to.set(x, y, c, static_cast<float>(sums[(y * to.width() + x) * to.channels + c]));
    });
  };
}
@end

@implementation MPSCNNAddGradient
MEMBERS(MPSCNNAddGradient)
- (instancetype)initWithDevice:(id<MTLDevice>)device
       isSecondarySourceFilter:(BOOL)isSecondarySourceFilter {
  return [self apple_initWithDevice:device secondary:isSecondarySourceFilter];
}
@end

// The gradient of what is subtracted wants a primaryScale of -1, the caller's to set; or it negates
// by itself, if APPLE_DOUBLE_FOLLOWS_TEXT is set.
@implementation MPSCNNSubtractGradient
MEMBERS(MPSCNNSubtractGradient)
- (instancetype)initWithDevice:(id<MTLDevice>)device
       isSecondarySourceFilter:(BOOL)isSecondarySourceFilter {
  return [self apple_initWithDevice:device secondary:isSecondarySourceFilter];
}
- (double)apple_sign {
  return self.isSecondarySourceFilter && std::getenv("APPLE_DOUBLE_FOLLOWS_TEXT") != nullptr ? -1
                                                                                             : 1;
}
@end

@implementation MPSCNNMultiplyGradient
MEMBERS(MPSCNNMultiplyGradient)
- (instancetype)initWithDevice:(id<MTLDevice>)device
       isSecondarySourceFilter:(BOOL)isSecondarySourceFilter {
  return [self apple_initWithDevice:device secondary:isSecondarySourceFilter];
}
- (bool)apple_multiplies {
  return true;
}
@end
