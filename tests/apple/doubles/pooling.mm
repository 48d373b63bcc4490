// Pooling: maxima, averages and roots of sums of squares. The window of result i begins at
// offset - floor(reach / 2) + stride i, where a window of k taps reaches (k - 1) dilation + 1 far.
// https://developer.apple.com/documentation/metalperformanceshaders/mpscnnpooling
#include <algorithm>
#include <cmath>

#include "kernel.h"

namespace {

using apple::Extent;
using apple::Picture;
using apple::signed_of;

// What kernels and their gradients have in common.
struct Pooling {
  NSInteger width, height, stride_x, stride_y, dilation_x, dilation_y;
  MPSOffset offset;
  bool zeros;  // beyond the image; else the window ends there
  NSInteger zero_pad_x = 0, zero_pad_y = 0;
};

// The taps of one window, those beyond the image among them.
struct Window {
  const Pooling& p;
  const Picture& source;
  NSUInteger channel;
  NSInteger left, top;

  Window(const Pooling& p, const Picture& source, NSUInteger channel, NSUInteger x, NSUInteger y)
      : p(p),
        source(source),
        channel(channel),
        left(p.offset.x - ((p.width - 1) * p.dilation_x + 1) / 2 + p.stride_x * signed_of(x)),
        top(p.offset.y - ((p.height - 1) * p.dilation_y + 1) / 2 + p.stride_y * signed_of(y)) {}

  // Calls visit(x, y) row by row.
  template <class Visit>
  void each(Visit visit) const {
    for (NSInteger j = 0; j < p.height; ++j)
      for (NSInteger i = 0; i < p.width; ++i)
        visit(left + i * p.dilation_x, top + j * p.dilation_y);
  }
  // The same for the taps that lie in the image.
  template <class Visit>
  void each_inside(Visit visit) const {
    each([&](NSInteger x, NSInteger y) {
      if (source.has(x, y)) visit(x, y);
    });
  }
  double get(NSInteger x, NSInteger y) const { return source.get_or_zero(x, y, channel); }
  // What an average divides by.
  double count() const {
    if (p.zeros) return static_cast<double>(p.width * p.height);
    double found = 0;
    each([&](NSInteger x, NSInteger y) {
      found += x >= -p.zero_pad_x && x < signed_of(source.width()) + p.zero_pad_x &&
               y >= -p.zero_pad_y && y < signed_of(source.height()) + p.zero_pad_y;
    });
    return found;
  }
};

// The largest value of a window and its place; 0 at no place where the window has no value.
struct Largest {
  double value = 0;
  NSInteger x = -1, y = -1;
};

// Apple says neither which of equal values gets the gradient nor what becomes of NaN: here the
// first one of the window's rows does, and NaN is larger than every number, as in traingraph.mps.
Largest largest(const Window& window) {
  Largest most;
  bool found = false;
  window.each([&](NSInteger x, NSInteger y) {
    if (!window.p.zeros && !window.source.has(x, y)) return;
    const double value = window.get(x, y);
    if (found && !(value > most.value) && !(std::isnan(value) && !std::isnan(most.value))) return;
    found = true;
    most = {value, x, y};
  });
  return most;
}

double sum(const Window& window, int power) {
  double value = 0;
  window.each_inside([&](NSInteger x, NSInteger y) { value += std::pow(window.get(x, y), power); });
  return value;
}

// One result of each kind of pooling.
using Pool = double (*)(const Window&);
double pool_max(const Window& window) { return largest(window).value; }
double pool_average(const Window& window) {
  const double count = window.count();
  return count == 0 ? 0 : sum(window, 1) / count;
}
double pool_norm(const Window& window) { return std::sqrt(sum(window, 2)); }

// Gives a gradient to the source texels of a window: add(x, y, value).
using Add = std::function<void(NSInteger x, NSInteger y, double value)>;
using Spread = void (*)(const Window&, double gradient, const Add&);
void spread_max(const Window& window, double gradient, const Add& add) {
  const Largest most = largest(window);
  if (window.source.has(most.x, most.y)) add(most.x, most.y, gradient);
}
void spread_average(const Window& window, double gradient, const Add& add) {
  const double count = window.count();
  window.each_inside([&](NSInteger x, NSInteger y) { add(x, y, gradient / count); });
}
// A norm of 0 has no derivative: here it is 0.
void spread_norm(const Window& window, double gradient, const Add& add) {
  const double value = pool_norm(window);
  if (value == 0) return;
  window.each_inside(
      [&](NSInteger x, NSInteger y) { add(x, y, gradient * window.get(x, y) / value); });
}

apple::UnaryWork forward(const Pooling& p, Pool pool) {
  return [=](const Picture& from, const Picture& to) {
    to.each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
      to.set(x, y, c, static_cast<float>(pool(Window(p, from, c, x, y))));
    });
  };
}

// The gradients that count are those from primaryOffset on, as many as sourceSize says.
apple::BinaryWork backward(const Pooling& p, MPSOffset first, MTLSize size, Spread spread) {
  return [=](const Picture& gradient, const Picture& source, const Picture& to) {
    std::vector<double> sums(to.width() * to.height());
    for (NSUInteger c = 0; c < to.channels; ++c) {
      std::fill(sums.begin(), sums.end(), 0);
      const Add add = [&](NSInteger x, NSInteger y, double value) {
        sums[static_cast<NSUInteger>(y) * to.width() + static_cast<NSUInteger>(x)] += value;
      };
      for (NSUInteger y = 0; y < std::min(size.height, gradient.height()); ++y)
        for (NSUInteger x = 0; x < std::min(size.width, gradient.width()); ++x) {
          const NSInteger from_x = first.x + signed_of(x), from_y = first.y + signed_of(y);
          if (gradient.has(from_x, from_y))
            spread(Window(p, source, c, x, y), gradient.get_or_zero(from_x, from_y, c), add);
        }
      for (NSUInteger y = 0; y < to.height(); ++y)
        for (NSUInteger x = 0; x < to.width(); ++x)
          to.set(x, y, c, static_cast<float>(sums[y * to.width() + x]));
    }
  };
}

}  // namespace

// Where a class keeps its window and stride, and what the rest is at the beginning.
#define INITS_OF_POOLING(width, height, stride_x, stride_y, ...)                        \
  -(instancetype)initWithDevice : (id<MTLDevice>)device kernelWidth                     \
      : (NSUInteger)kernelWidth kernelHeight : (NSUInteger)kernelHeight {               \
    return [self initWithDevice:device                                                  \
                    kernelWidth:kernelWidth                                             \
                   kernelHeight:kernelHeight                                            \
                strideInPixelsX:1                                                       \
                strideInPixelsY:1];                                                     \
  }                                                                                     \
  -(instancetype)initWithDevice : (id<MTLDevice>)device kernelWidth                     \
      : (NSUInteger)kernelWidth kernelHeight : (NSUInteger)kernelHeight strideInPixelsX \
      : (NSUInteger)strideInPixelsX strideInPixelsY : (NSUInteger)strideInPixelsY {     \
    self = [super initWithDevice:device];                                               \
    apple::expect(kernelWidth * kernelHeight * strideInPixelsX * strideInPixelsY != 0,  \
                  "pooling with a window or a stride of zero");                         \
    width = kernelWidth, height = kernelHeight;                                         \
    stride_x = strideInPixelsX, stride_y = strideInPixelsY;                             \
    __VA_ARGS__;                                                                        \
    return self;                                                                        \
  }                                                                                     \
  -(MPSImageEdgeMode)apple_edgeMode {                                                   \
    return MPSImageEdgeModeZero;                                                        \
  }

// --- forward -------------------------------------------------------------------------------------

@implementation MPSCNNPooling
MEMBERS(MPSCNNPooling)
INITS_OF_POOLING(_kernelWidth, _kernelHeight, _strideInPixelsX, _strideInPixelsY,
                 _edgeMode = [self apple_edgeMode])
- (void)apple_checkSource:(Extent)source result:(Extent)result {
  if (source.channels != result.channels)
    apple::broken("MPSCNNPooling", "source and result differ in channels");
}
- (Pooling)apple_pooling {
  apple::expect(_edgeMode == MPSImageEdgeModeZero || _edgeMode == MPSImageEdgeModeClamp,
                "pooling has the edge modes zero and clamp");
  return {signed_of(_kernelWidth),
          signed_of(_kernelHeight),
          signed_of(_strideInPixelsX),
          signed_of(_strideInPixelsY),
          signed_of(_dilationRateX),
          signed_of(_dilationRateY),
          _offset,
          _edgeMode == MPSImageEdgeModeZero};
}
@end

@implementation MPSCNNPoolingMax
MEMBERS(MPSCNNPoolingMax)
- (MPSImageEdgeMode)apple_edgeMode {
  return MPSImageEdgeModeClamp;
}
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return forward([self apple_pooling], pool_max);
}
@end

@implementation MPSCNNPoolingAverage
MEMBERS(MPSCNNPoolingAverage)
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  Pooling p = [self apple_pooling];
  p.zero_pad_x = signed_of(_zeroPadSizeX), p.zero_pad_y = signed_of(_zeroPadSizeY);
  return forward(p, pool_average);
}
@end

@implementation MPSCNNPoolingL2Norm
MEMBERS(MPSCNNPoolingL2Norm)
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return forward([self apple_pooling], pool_norm);
}
@end

@implementation MPSCNNDilatedPoolingMax
MEMBERS(MPSCNNDilatedPoolingMax)
- (instancetype)initWithDevice:(id<MTLDevice>)device
                   kernelWidth:(NSUInteger)kernelWidth
                  kernelHeight:(NSUInteger)kernelHeight
                 dilationRateX:(NSUInteger)dilationRateX
                 dilationRateY:(NSUInteger)dilationRateY
               strideInPixelsX:(NSUInteger)strideInPixelsX
               strideInPixelsY:(NSUInteger)strideInPixelsY {
  self = [super initWithDevice:device
                   kernelWidth:kernelWidth
                  kernelHeight:kernelHeight
               strideInPixelsX:strideInPixelsX
               strideInPixelsY:strideInPixelsY];
  apple::expect(dilationRateX * dilationRateY != 0, "pooling with a dilation of zero");
  _dilationRateX = dilationRateX, _dilationRateY = dilationRateY;
  return self;
}
- (MPSImageEdgeMode)apple_edgeMode {
  return MPSImageEdgeModeClamp;
}
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return forward([self apple_pooling], pool_max);
}
@end

// --- gradient ------------------------------------------------------------------------------------

@implementation MPSCNNPoolingGradient
MEMBERS(MPSCNNPoolingGradient)
INITS_OF_POOLING(_secondaryKernelWidth, _secondaryKernelHeight, _secondaryStrideInPixelsX,
                 _secondaryStrideInPixelsY,
                 _primaryEdgeMode = _secondaryEdgeMode = [self apple_edgeMode];
                 _sourceSize = MTLSizeMake(NSUIntegerMax, NSUIntegerMax, NSUIntegerMax))
- (void)apple_checkPrimary:(Extent)primary secondary:(Extent)secondary result:(Extent)result {
  if (!(secondary == result) || primary.channels != secondary.channels)
    apple::broken("MPSCNNPoolingGradient", "its images do not belong together in size");
}
- (Pooling)apple_pooling {
  apple::expect(_primaryEdgeMode == _secondaryEdgeMode,
                "the edge modes of a gradient of pooling differ");
  return {signed_of(_secondaryKernelWidth),
          signed_of(_secondaryKernelHeight),
          signed_of(_secondaryStrideInPixelsX),
          signed_of(_secondaryStrideInPixelsY),
          signed_of(_secondaryDilationRateX),
          signed_of(_secondaryDilationRateY),
          _secondaryOffset,
          _secondaryEdgeMode == MPSImageEdgeModeZero};
}
@end

@implementation MPSCNNPoolingMaxGradient
MEMBERS(MPSCNNPoolingMaxGradient)
- (MPSImageEdgeMode)apple_edgeMode {
  return MPSImageEdgeModeClamp;
}
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return backward([self apple_pooling], _primaryOffset, _sourceSize, spread_max);
}
@end

@implementation MPSCNNPoolingAverageGradient
MEMBERS(MPSCNNPoolingAverageGradient)
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  Pooling p = [self apple_pooling];
  p.zero_pad_x = signed_of(_zeroPadSizeX), p.zero_pad_y = signed_of(_zeroPadSizeY);
  return backward(p, _primaryOffset, _sourceSize, spread_average);
}
@end

@implementation MPSCNNPoolingL2NormGradient
MEMBERS(MPSCNNPoolingL2NormGradient)
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return backward([self apple_pooling], _primaryOffset, _sourceSize, spread_norm);
}
@end

@implementation MPSCNNDilatedPoolingMaxGradient
MEMBERS(MPSCNNDilatedPoolingMaxGradient)
- (instancetype)initWithDevice:(id<MTLDevice>)device
                   kernelWidth:(NSUInteger)kernelWidth
                  kernelHeight:(NSUInteger)kernelHeight
                 dilationRateX:(NSUInteger)dilationRateX
                 dilationRateY:(NSUInteger)dilationRateY
               strideInPixelsX:(NSUInteger)strideInPixelsX
               strideInPixelsY:(NSUInteger)strideInPixelsY {
  self = [super initWithDevice:device
                   kernelWidth:kernelWidth
                  kernelHeight:kernelHeight
               strideInPixelsX:strideInPixelsX
               strideInPixelsY:strideInPixelsY];
  apple::expect(dilationRateX * dilationRateY != 0, "pooling with a dilation of zero");
  _secondaryDilationRateX = dilationRateX, _secondaryDilationRateY = dilationRateY;
  return self;
}
- (MPSImageEdgeMode)apple_edgeMode {
  return MPSImageEdgeModeClamp;
}
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return backward([self apple_pooling], _primaryOffset, _sourceSize, spread_max);
}
@end
