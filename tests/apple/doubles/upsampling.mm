// Upsampling by whole factors, and its transpose as gradient; resizing to any size.
// https://developer.apple.com/documentation/metalperformanceshaders/mpscnnupsampling
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnresizebilinear
#include <algorithm>
#include <cmath>

#include "kernel.h"

namespace {

using apple::Extent;
using apple::Picture;

// The texels of the source that a result texel is made of, along one axis.
struct Taps {
  NSUInteger index[2];
  double weight[2];
};
using Place =
    std::function<Taps(NSUInteger result, NSUInteger source_size, NSUInteger result_size)>;

Place nearest(double factor) {
  return [=](NSUInteger result, NSUInteger source_size, NSUInteger) {
    const auto index = static_cast<NSUInteger>(static_cast<double>(result) / factor);
    return Taps{{std::min(index, source_size - 1), 0}, {1, 0}};
  };
}

// What lies on what: the corner texels, the first ones, or the centres of the images.
enum class Grid { corners, first, centres };

Place bilinear(double factor, Grid grid) {
  return [=](NSUInteger result, NSUInteger source_size, NSUInteger result_size) {
    const double scale = static_cast<double>(source_size - 1) /
                         static_cast<double>(std::max<NSUInteger>(1, result_size - 1));
    const auto at = static_cast<double>(result);
    const double places[] = {at * scale, at / factor, (at + 0.5) / factor - 0.5};
    const double place =
        std::clamp(places[static_cast<int>(grid)], 0.0, static_cast<double>(source_size - 1));
    const auto first = static_cast<NSUInteger>(place);
    const double weight = place - std::floor(place);
    return Taps{{first, std::min(first + 1, source_size - 1)}, {1 - weight, weight}};
  };
}

// Calls visit(source x, source y, weight) for each texel that a result is made of.
template <class Visit>
void each_tap(const Taps& across, const Taps& down, Visit visit) {
  for (int j = 0; j < 2; ++j)
    for (int i = 0; i < 2; ++i)
      if (const double weight = across.weight[i] * down.weight[j]; weight != 0)
        visit(across.index[i], down.index[j], weight);
}

void upsample(const Place& across, const Place& down, const Picture& from, const Picture& to) {
  to.each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
    double sum = 0;
    each_tap(
        across(x, from.width(), to.width()), down(y, from.height(), to.height()),
        [&](NSUInteger sx, NSUInteger sy, double weight) { sum += weight * from.get(sx, sy, c); });
    to.set(x, y, c, static_cast<float>(sum));
  });
}

void spread(const Place& across, const Place& down, const Picture& gradient, const Picture& to) {
  std::vector<double> sums(to.width() * to.height() * to.channels);
  gradient.each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
    each_tap(across(x, to.width(), gradient.width()), down(y, to.height(), gradient.height()),
             [&](NSUInteger sx, NSUInteger sy, double weight) {
               sums[(sy * to.width() + sx) * to.channels + c] += weight * gradient.get(x, y, c);
             });
  });
  to.each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
    to.set(x, y, c, static_cast<float>(sums[(y * to.width() + x) * to.channels + c]));
  });
}

void expect_scaled(Extent small, Extent large, double x, double y, const char* what) {
  if (small.channels != large.channels || static_cast<double>(small.width) * x != large.width ||
      static_cast<double>(small.height) * y != large.height)
    apple::broken(what, "its images do not differ by its factors");
}

}  // namespace

@implementation MPSCNNUpsampling
MEMBERS(MPSCNNUpsampling)
- (instancetype)apple_initWithDevice:(id<MTLDevice>)device
                                   x:(NSUInteger)x
                                   y:(NSUInteger)y
                             corners:(BOOL)corners {
  self = [super initWithDevice:device];
  apple::expect(x * y != 0, "upsampling by a factor of zero");
  _scaleFactorX = static_cast<double>(x), _scaleFactorY = static_cast<double>(y);
  _alignCorners = corners;
  return self;
}
- (void)apple_checkSource:(Extent)source result:(Extent)result {
  expect_scaled(source, result, _scaleFactorX, _scaleFactorY, "MPSCNNUpsampling");
}
@end

@implementation MPSCNNUpsamplingNearest
MEMBERS(MPSCNNUpsamplingNearest)
- (instancetype)initWithDevice:(id<MTLDevice>)device
           integerScaleFactorX:(NSUInteger)integerScaleFactorX
           integerScaleFactorY:(NSUInteger)integerScaleFactorY {
  return [self apple_initWithDevice:device x:integerScaleFactorX y:integerScaleFactorY corners:NO];
}
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return [across = nearest(_scaleFactorX), down = nearest(_scaleFactorY)](
             const Picture& from, const Picture& to) { upsample(across, down, from, to); };
}
@end

@implementation MPSCNNUpsamplingBilinear
MEMBERS(MPSCNNUpsamplingBilinear)
- (instancetype)initWithDevice:(id<MTLDevice>)device
           integerScaleFactorX:(NSUInteger)integerScaleFactorX
           integerScaleFactorY:(NSUInteger)integerScaleFactorY {
  return [self apple_initWithDevice:device x:integerScaleFactorX y:integerScaleFactorY corners:NO];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
           integerScaleFactorX:(NSUInteger)integerScaleFactorX
           integerScaleFactorY:(NSUInteger)integerScaleFactorY
                  alignCorners:(BOOL)alignCorners {
  return [self apple_initWithDevice:device
                                  x:integerScaleFactorX
                                  y:integerScaleFactorY
                            corners:alignCorners];
}
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  const Grid grid = _alignCorners != NO ? Grid::corners : Grid::first;
  return [across = bilinear(_scaleFactorX, grid), down = bilinear(_scaleFactorY, grid)](
             const Picture& from, const Picture& to) { upsample(across, down, from, to); };
}
@end

@implementation MPSCNNUpsamplingGradient
MEMBERS(MPSCNNUpsamplingGradient)
- (instancetype)apple_initWithDevice:(id<MTLDevice>)device
                                   x:(NSUInteger)integerScaleFactorX
                                   y:(NSUInteger)integerScaleFactorY {
  self = [super initWithDevice:device];
  apple::expect(integerScaleFactorX * integerScaleFactorY != 0, "upsampling by a factor of zero");
  _scaleFactorX = static_cast<double>(integerScaleFactorX);
  _scaleFactorY = static_cast<double>(integerScaleFactorY);
  return self;
}
- (void)apple_checkPrimary:(Extent)primary secondary:(Extent)secondary result:(Extent)result {
  if (!(secondary == result))
    apple::broken("MPSCNNUpsamplingGradient", "its result has not the size of the forward source");
  expect_scaled(result, primary, _scaleFactorX, _scaleFactorY, "MPSCNNUpsamplingGradient");
}
@end

@implementation MPSCNNUpsamplingNearestGradient
MEMBERS(MPSCNNUpsamplingNearestGradient)
- (instancetype)initWithDevice:(id<MTLDevice>)device
           integerScaleFactorX:(NSUInteger)integerScaleFactorX
           integerScaleFactorY:(NSUInteger)integerScaleFactorY {
  return [self apple_initWithDevice:device x:integerScaleFactorX y:integerScaleFactorY];
}
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return [across = nearest(_scaleFactorX), down = nearest(_scaleFactorY)](
             const Picture& gradient, const Picture&, const Picture& to) {
    spread(across, down, gradient, to);
  };
}
@end

@implementation MPSCNNUpsamplingBilinearGradient
MEMBERS(MPSCNNUpsamplingBilinearGradient)
- (instancetype)initWithDevice:(id<MTLDevice>)device
           integerScaleFactorX:(NSUInteger)integerScaleFactorX
           integerScaleFactorY:(NSUInteger)integerScaleFactorY {
  return [self apple_initWithDevice:device x:integerScaleFactorX y:integerScaleFactorY];
}
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return
      [across = bilinear(_scaleFactorX, Grid::first), down = bilinear(_scaleFactorY, Grid::first)](
          const Picture& gradient, const Picture&, const Picture& to) {
        spread(across, down, gradient, to);
      };
}
@end

// --- resizing ------------------------------------------------------------------------------------

@implementation MPSNNResizeBilinear
MEMBERS(MPSNNResizeBilinear)
- (instancetype)initWithDevice:(id<MTLDevice>)device
                   resizeWidth:(NSUInteger)resizeWidth
                  resizeHeight:(NSUInteger)resizeHeight
                  alignCorners:(BOOL)alignCorners {
  self = [super initWithDevice:device];
  _resizeWidth = resizeWidth, _resizeHeight = resizeHeight;
  _alignCorners = alignCorners;
  return self;
}
- (void)apple_checkSource:(Extent)source result:(Extent)result {
  if (!(result == Extent{_resizeWidth, _resizeHeight, source.channels}))
    apple::broken("MPSNNResizeBilinear", "its result has not the size that it resizes to");
}
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return [grid = _alignCorners != NO ? Grid::corners : Grid::centres](const Picture& from,
                                                                      const Picture& to) {
    const auto factor = [](NSUInteger result, NSUInteger source) {
      return static_cast<double>(result) / static_cast<double>(source);
    };
    upsample(bilinear(factor(to.width(), from.width()), grid),
             bilinear(factor(to.height(), from.height()), grid), from, to);
  };
}
@end
