// Softmax and its logarithm over the channels of each texel. The gradient kernels take the forward
// result as their source:
// https://developer.apple.com/documentation/metalperformanceshaders/mpscnnsoftmaxgradient
#include <algorithm>
#include <cmath>

#include "kernel.h"

namespace {

using apple::Picture;

template <class Visit>
void each_texel(const Picture& picture, Visit visit) {
  for (NSUInteger y = 0; y < picture.height(); ++y)
    for (NSUInteger x = 0; x < picture.width(); ++x) visit(x, y);
}

// Writes x - log Σ exp x, or its exponential.
void softmax(const Picture& from, const Picture& to, bool logarithm) {
  each_texel(from, [&](NSUInteger x, NSUInteger y) {
    double most = from.get(x, y, 0), sum = 0;
    for (NSUInteger c = 1; c < from.channels; ++c) most = std::max<double>(most, from.get(x, y, c));
    for (NSUInteger c = 0; c < from.channels; ++c) sum += std::exp(from.get(x, y, c) - most);
    for (NSUInteger c = 0; c < from.channels; ++c) {
      const double value = from.get(x, y, c) - most - std::log(sum);
      to.set(x, y, c, static_cast<float>(logarithm ? value : std::exp(value)));
    }
  });
}

// y (E - Σ E y) for softmax, E - exp(y) Σ E for its logarithm.
void softmax_gradient(const Picture& gradient, const Picture& result, const Picture& to,
                      bool logarithm) {
  each_texel(gradient, [&](NSUInteger x, NSUInteger y) {
    double sum = 0;
    for (NSUInteger c = 0; c < gradient.channels; ++c)
      sum += gradient.get(x, y, c) * (logarithm ? 1.0 : result.get(x, y, c));
    for (NSUInteger c = 0; c < gradient.channels; ++c) {
      const double e = gradient.get(x, y, c), r = result.get(x, y, c);
      to.set(x, y, c, static_cast<float>(logarithm ? e - std::exp(r) * sum : r * (e - sum)));
    }
  });
}

}  // namespace

@implementation MPSCNNSoftMax
MEMBERS(MPSCNNSoftMax)
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return [](const Picture& from, const Picture& to) { softmax(from, to, false); };
}
@end

@implementation MPSCNNLogSoftMax
MEMBERS(MPSCNNLogSoftMax)
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return [](const Picture& from, const Picture& to) { softmax(from, to, true); };
}
@end

@implementation MPSCNNSoftMaxGradient
MEMBERS(MPSCNNSoftMaxGradient)
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return [](const Picture& gradient, const Picture& result, const Picture& to) {
    softmax_gradient(gradient, result, to, false);
  };
}
@end

@implementation MPSCNNLogSoftMaxGradient
MEMBERS(MPSCNNLogSoftMaxGradient)
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return [](const Picture& gradient, const Picture& result, const Picture& to) {
    softmax_gradient(gradient, result, to, true);
  };
}
@end
