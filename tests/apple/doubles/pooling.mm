// Pooling: maxima, averages and roots of sums of squares. The window of result i begins at
// offset - floor(kernel / 2) + stride i.
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
  NSInteger width, height, stride_x, stride_y;
  MPSOffset offset;
  bool zeros;  // beyond the image; else the window ends there
  NSInteger zero_pad_x = 0, zero_pad_y = 0;
};

// The part [begin, end) of a window that lies in [-more, size + more).
struct Range {
  NSInteger begin, end;
  NSInteger size() const { return std::max<NSInteger>(0, end - begin); }
};
Range cut(NSInteger begin, NSInteger length, NSUInteger size, NSInteger more = 0) {
  return {std::max(begin, -more), std::min(begin + length, signed_of(size) + more)};
}

struct Window {
  Range x, y;    // in the image
  double count;  // what an average divides by
  bool beyond;   // whether zeros beyond the image count
};

Window window_of(const Pooling& p, const Picture& source, NSUInteger x, NSUInteger y) {
  const NSInteger left = p.offset.x - p.width / 2 + p.stride_x * signed_of(x);
  const NSInteger top = p.offset.y - p.height / 2 + p.stride_y * signed_of(y);
  Window window{cut(left, p.width, source.width()), cut(top, p.height, source.height()), 0, false};
  const NSInteger inside = window.x.size() * window.y.size();
  const NSInteger padded = cut(left, p.width, source.width(), p.zero_pad_x).size() *
                           cut(top, p.height, source.height(), p.zero_pad_y).size();
  window.count = static_cast<double>(p.zeros ? p.width * p.height : padded);
  window.beyond = p.zeros && inside != p.width * p.height;
  return window;
}

template <class Visit>
void each(const Window& window, Visit visit) {
  for (NSInteger y = window.y.begin; y < window.y.end; ++y)
    for (NSInteger x = window.x.begin; x < window.x.end; ++x)
      visit(static_cast<NSUInteger>(x), static_cast<NSUInteger>(y));
}

double most(const Window& window, const Picture& source, NSUInteger channel) {
  double value = window.beyond ? 0 : -INFINITY;
  each(window, [&](NSUInteger x, NSUInteger y) {
    value = std::max<double>(value, source.get(x, y, channel));
  });
  return value;
}

double sum(const Window& window, const Picture& source, NSUInteger channel, int power) {
  double value = 0;
  each(window, [&](NSUInteger x, NSUInteger y) {
    value += std::pow(double{source.get(x, y, channel)}, power);
  });
  return value;
}

// One result of each kind of pooling.
using Pool = double (*)(const Window&, const Picture&, NSUInteger channel);
double pool_max(const Window& window, const Picture& source, NSUInteger channel) {
  return most(window, source, channel);
}
double pool_average(const Window& window, const Picture& source, NSUInteger channel) {
  return window.count == 0 ? 0 : sum(window, source, channel, 1) / window.count;
}
double pool_norm(const Window& window, const Picture& source, NSUInteger channel) {
  return std::sqrt(sum(window, source, channel, 2));
}

// Gives a gradient to the source texels of a window: add(x, y, value).
using Add = std::function<void(NSUInteger x, NSUInteger y, double value)>;
using Spread = void (*)(const Window&, const Picture&, NSUInteger channel, double gradient,
                        const Add&);
void spread_max(const Window& window, const Picture& source, NSUInteger channel, double gradient,
                const Add& add) {
  const double value = most(window, source, channel);
  bool given = false;
  each(window, [&](NSUInteger x, NSUInteger y) {
    if (given || source.get(x, y, channel) != value) return;
    given = true;
    add(x, y, gradient);
  });
}
void spread_average(const Window& window, const Picture&, NSUInteger, double gradient,
                    const Add& add) {
  each(window, [&](NSUInteger x, NSUInteger y) { add(x, y, gradient / window.count); });
}
void spread_norm(const Window& window, const Picture& source, NSUInteger channel, double gradient,
                 const Add& add) {
  const double value = pool_norm(window, source, channel);
  if (value == 0) return;
  each(window, [&](NSUInteger x, NSUInteger y) {
    add(x, y, gradient * source.get(x, y, channel) / value);
  });
}

apple::UnaryWork forward(const Pooling& p, Pool pool) {
  return [=](const Picture& from, const Picture& to) {
    to.each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
      to.set(x, y, c, static_cast<float>(pool(window_of(p, from, x, y), from, c)));
    });
  };
}

// The gradients that count are those from primaryOffset on, as many as sourceSize says.
apple::BinaryWork backward(const Pooling& p, MPSOffset first, MTLSize size, Spread spread) {
  return [=](const Picture& gradient, const Picture& source, const Picture& to) {
    std::vector<double> sums(to.width() * to.height());
    for (NSUInteger c = 0; c < to.channels; ++c) {
      std::fill(sums.begin(), sums.end(), 0);
      const Add add = [&](NSUInteger x, NSUInteger y, double value) {
        sums[y * to.width() + x] += value;
      };
      for (NSUInteger y = 0; y < std::min(size.height, gradient.height()); ++y)
        for (NSUInteger x = 0; x < std::min(size.width, gradient.width()); ++x)
          spread(window_of(p, source, x, y), source, c,
                 gradient.get_or_zero(first.x + signed_of(x), first.y + signed_of(y), c), add);
      for (NSUInteger y = 0; y < to.height(); ++y)
        for (NSUInteger x = 0; x < to.width(); ++x)
          to.set(x, y, c, static_cast<float>(sums[y * to.width() + x]));
    }
  };
}

}  // namespace

// --- forward -------------------------------------------------------------------------------------

@implementation MPSCNNPooling
MEMBERS(MPSCNNPooling)
- (instancetype)initWithDevice:(id<MTLDevice>)device
                   kernelWidth:(NSUInteger)kernelWidth
                  kernelHeight:(NSUInteger)kernelHeight {
  return [self initWithDevice:device
                  kernelWidth:kernelWidth
                 kernelHeight:kernelHeight
              strideInPixelsX:1
              strideInPixelsY:1];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
                   kernelWidth:(NSUInteger)kernelWidth
                  kernelHeight:(NSUInteger)kernelHeight
               strideInPixelsX:(NSUInteger)strideInPixelsX
               strideInPixelsY:(NSUInteger)strideInPixelsY {
  self = [super initWithDevice:device];
  apple::expect(kernelWidth * kernelHeight * strideInPixelsX * strideInPixelsY != 0,
                "pooling with a window or a stride of zero");
  _kernelWidth = kernelWidth, _kernelHeight = kernelHeight;
  _strideInPixelsX = strideInPixelsX, _strideInPixelsY = strideInPixelsY;
  return self;
}
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
          _offset,
          _edgeMode == MPSImageEdgeModeZero};
}
@end

@implementation MPSCNNPoolingMax
MEMBERS(MPSCNNPoolingMax)
- (instancetype)initWithDevice:(id<MTLDevice>)device
                   kernelWidth:(NSUInteger)kernelWidth
                  kernelHeight:(NSUInteger)kernelHeight
               strideInPixelsX:(NSUInteger)strideInPixelsX
               strideInPixelsY:(NSUInteger)strideInPixelsY {
  self = [super initWithDevice:device
                   kernelWidth:kernelWidth
                  kernelHeight:kernelHeight
               strideInPixelsX:strideInPixelsX
               strideInPixelsY:strideInPixelsY];
  _edgeMode = MPSImageEdgeModeClamp;
  return self;
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

// --- gradient ------------------------------------------------------------------------------------

@implementation MPSCNNPoolingGradient
MEMBERS(MPSCNNPoolingGradient)
- (instancetype)initWithDevice:(id<MTLDevice>)device
                   kernelWidth:(NSUInteger)kernelWidth
                  kernelHeight:(NSUInteger)kernelHeight {
  return [self initWithDevice:device
                  kernelWidth:kernelWidth
                 kernelHeight:kernelHeight
              strideInPixelsX:1
              strideInPixelsY:1];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
                   kernelWidth:(NSUInteger)kernelWidth
                  kernelHeight:(NSUInteger)kernelHeight
               strideInPixelsX:(NSUInteger)strideInPixelsX
               strideInPixelsY:(NSUInteger)strideInPixelsY {
  self = [super initWithDevice:device];
  apple::expect(kernelWidth * kernelHeight * strideInPixelsX * strideInPixelsY != 0,
                "pooling with a window or a stride of zero");
  _secondaryKernelWidth = kernelWidth, _secondaryKernelHeight = kernelHeight;
  _secondaryStrideInPixelsX = strideInPixelsX, _secondaryStrideInPixelsY = strideInPixelsY;
  _sourceSize = MTLSizeMake(NSUIntegerMax, NSUIntegerMax, NSUIntegerMax);
  return self;
}
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
          _secondaryOffset,
          _secondaryEdgeMode == MPSImageEdgeModeZero};
}
@end

@implementation MPSCNNPoolingMaxGradient
MEMBERS(MPSCNNPoolingMaxGradient)
- (instancetype)initWithDevice:(id<MTLDevice>)device
                   kernelWidth:(NSUInteger)kernelWidth
                  kernelHeight:(NSUInteger)kernelHeight
               strideInPixelsX:(NSUInteger)strideInPixelsX
               strideInPixelsY:(NSUInteger)strideInPixelsY {
  self = [super initWithDevice:device
                   kernelWidth:kernelWidth
                  kernelHeight:kernelHeight
               strideInPixelsX:strideInPixelsX
               strideInPixelsY:strideInPixelsY];
  _primaryEdgeMode = _secondaryEdgeMode = MPSImageEdgeModeClamp;
  return self;
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
