// Normalization by the squares, or the variance, of what lies around a texel or a channel:
//   y = pm + ps (x - p0 M) T^-beta,  T = delta + alpha (Q - M^2)
// with the means M of x and Q of x^2 over a window, zeros beyond the image counted; M is 0 but in
// local contrast normalization. Apple's pages do not say where a window lies: here it reaches
// floor(k / 2) before its middle and floor((k - 1) / 2) behind, of which the backward windows that
// they do tell are the mirrors. The gradients are the derivatives of that formula, as
// traingraph.mps computes them; Apple's text leaves out the 1 / N of the means, and so do they if
// APPLE_DOUBLE_FOLLOWS_TEXT is set.
// https://developer.apple.com/documentation/metalperformanceshaders/mpscnncrosschannelnormalization
// https://developer.apple.com/documentation/metalperformanceshaders/mpscnnspatialnormalization
// https://developer.apple.com/documentation/metalperformanceshaders/mpscnnlocalcontrastnormalization
#include <cmath>
#include <cstdlib>

#include "kernel.h"

namespace {

using apple::Picture;
using apple::signed_of;

struct Local {
  NSInteger width, height, channels;  // of a window
  double alpha, beta, delta;
  bool centered = false;  // around the mean
  double p0 = 0, pm = 0, ps = 1;

  double count() const { return static_cast<double>(width * height * channels); }
};

struct Place {
  NSInteger x, y, c;
};

// What the formula has at one place.
struct Terms {
  double mean, base, centered, power;  // M, T, x - p0 M, T^-beta
};

// Calls visit(place) for the part of a window that lies in the image. A mirrored window holds the
// places whose windows hold this one.
template <class Visit>
void each(const Local& n, const Picture& picture, Place at, bool mirrored, Visit visit) {
  const auto first = [&](NSInteger size) { return mirrored ? (size - 1) / 2 : size / 2; };
  for (NSInteger k = 0; k < n.channels; ++k)
    for (NSInteger j = 0; j < n.height; ++j)
      for (NSInteger i = 0; i < n.width; ++i) {
        const Place place{at.x - first(n.width) + i, at.y - first(n.height) + j,
                          at.c - first(n.channels) + k};
        if (picture.has(place.x, place.y) && place.c >= 0 && place.c < signed_of(picture.channels))
          visit(place);
      }
}

double value_at(const Picture& picture, Place at) {
  return picture.get_or_zero(at.x, at.y, static_cast<NSUInteger>(at.c));
}

Terms terms_at(const Local& n, const Picture& source, Place at) {
  double sum = 0, squares = 0;
  each(n, source, at, false, [&](Place place) {
    const double value = value_at(source, place);
    sum += value;
    squares += value * value;
  });
  const double mean = n.centered ? sum / n.count() : 0;
  const double base = n.delta + n.alpha * (squares / n.count() - mean * mean);
  return {mean, base, value_at(source, at) - n.p0 * mean, std::pow(base, -n.beta)};
}

apple::UnaryWork forward(const Local& n) {
  return [=](const Picture& from, const Picture& to) {
    from.each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
      const Terms at = terms_at(n, from, {signed_of(x), signed_of(y), signed_of(c)});
      to.set(x, y, c, static_cast<float>(n.pm + n.ps * at.centered * at.power));
    });
  };
}

apple::BinaryWork backward(const Local& n) {
  return [=](const Picture& gradient, const Picture& source, const Picture& to) {
    std::vector<Terms> all;
    const double factor = std::getenv("APPLE_DOUBLE_FOLLOWS_TEXT") == nullptr ? 1 : n.count();
    const auto index = [&](Place at) {
      return static_cast<NSUInteger>(
          (at.y * signed_of(source.width()) + at.x) * signed_of(source.channels) + at.c);
    };
    source.each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
      all.push_back(terms_at(n, source, {signed_of(x), signed_of(y), signed_of(c)}));
    });
    source.each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
      const Place at{signed_of(x), signed_of(y), signed_of(c)};
      double sum = n.ps * value_at(gradient, at) * all[index(at)].power;
      each(n, source, at, true, [&](Place other) {
        const Terms& terms = all[index(other)];
        const double of_other = n.ps * value_at(gradient, other) * terms.power / n.count();
        sum -= of_other * n.p0;
        sum -= factor * of_other * 2 * n.alpha * n.beta * terms.centered / terms.base *
               (value_at(source, at) - terms.mean);
      });
      to.set(x, y, c, static_cast<float>(sum));
    });
  };
}

void expect_zeros(MPSImageEdgeMode mode) {
  apple::expect(mode == MPSImageEdgeModeZero, "a local normalization reads zeros beyond its image");
}

}  // namespace

// Where a class keeps its window, and what the rest is at the beginning.
#define INIT_OF_WINDOW(width, height, ...)                                                  \
  -(instancetype)initWithDevice : (id<MTLDevice>)device kernelWidth                         \
      : (NSUInteger)kernelWidth kernelHeight : (NSUInteger)kernelHeight {                   \
    self = [super initWithDevice:device];                                                   \
    apple::expect(kernelWidth * kernelHeight != 0, "a local normalization over no texels"); \
    width = kernelWidth, height = kernelHeight;                                             \
    __VA_ARGS__;                                                                            \
    return self;                                                                            \
  }

// --- forward -------------------------------------------------------------------------------------

@implementation MPSCNNCrossChannelNormalization
MEMBERS(MPSCNNCrossChannelNormalization)
- (instancetype)initWithDevice:(id<MTLDevice>)device kernelSize:(NSUInteger)kernelSize {
  self = [super initWithDevice:device];
  apple::expect(kernelSize != 0, "a local normalization over no channels");
  _kernelSize = kernelSize;
  _alpha = 1, _beta = 5, _delta = 1;
  return self;
}
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  expect_zeros(_edgeMode);
  return forward({1, 1, signed_of(_kernelSize), _alpha, _beta, _delta});
}
@end

@implementation MPSCNNSpatialNormalization
MEMBERS(MPSCNNSpatialNormalization)
INIT_OF_WINDOW(_kernelWidth, _kernelHeight, _alpha = 1, _beta = 5, _delta = 1)
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  expect_zeros(_edgeMode);
  return forward({signed_of(_kernelWidth), signed_of(_kernelHeight), 1, _alpha, _beta, _delta});
}
@end

@implementation MPSCNNLocalContrastNormalization
MEMBERS(MPSCNNLocalContrastNormalization)
INIT_OF_WINDOW(_kernelWidth, _kernelHeight, _alpha = 0, _beta = 0.5f, _delta = 1.0f / 1024, _p0 = 1,
               _pm = 0, _ps = 1)
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  expect_zeros(_edgeMode);
  return forward({signed_of(_kernelWidth), signed_of(_kernelHeight), 1, _alpha, _beta, _delta, true,
                  _p0, _pm, _ps});
}
@end

// --- gradient ------------------------------------------------------------------------------------

@implementation MPSCNNCrossChannelNormalizationGradient
MEMBERS(MPSCNNCrossChannelNormalizationGradient)
- (instancetype)initWithDevice:(id<MTLDevice>)device kernelSize:(NSUInteger)kernelSize {
  self = [super initWithDevice:device];
  apple::expect(kernelSize != 0, "a local normalization over no channels");
  _kernelSize = kernelSize;
  _alpha = 1, _beta = 5, _delta = 1;
  return self;
}
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  expect_zeros(_secondaryEdgeMode);
  return backward({1, 1, signed_of(_kernelSize), _alpha, _beta, _delta});
}
@end

@implementation MPSCNNSpatialNormalizationGradient
MEMBERS(MPSCNNSpatialNormalizationGradient)
INIT_OF_WINDOW(_secondaryKernelWidth, _secondaryKernelHeight, _alpha = 1, _beta = 5, _delta = 1)
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  expect_zeros(_secondaryEdgeMode);
  return backward({signed_of(_secondaryKernelWidth), signed_of(_secondaryKernelHeight), 1, _alpha,
                   _beta, _delta});
}
@end

@implementation MPSCNNLocalContrastNormalizationGradient
MEMBERS(MPSCNNLocalContrastNormalizationGradient)
INIT_OF_WINDOW(_secondaryKernelWidth, _secondaryKernelHeight, _alpha = 0, _beta = 0.5f,
               _delta = 1.0f / 1024, _p0 = 1, _pm = 0, _ps = 1)
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  expect_zeros(_secondaryEdgeMode);
  return backward({signed_of(_secondaryKernelWidth), signed_of(_secondaryKernelHeight), 1, _alpha,
                   _beta, _delta, true, _p0, _pm, _ps});
}
@end
