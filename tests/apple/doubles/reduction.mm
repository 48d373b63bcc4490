// Sums, means, minima and maxima along a row, a column or the channels.
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnreduceunary
#include <algorithm>

#include "kernel.h"

namespace {

using apple::Extent;
using apple::Picture;

enum class Axis { kRow, kColumn, kChannels };
enum class Kind { kSum, kMean, kMin, kMax };

NSUInteger length(const Picture& picture, Axis axis) {
  return axis == Axis::kRow      ? picture.width()
         : axis == Axis::kColumn ? picture.height()
                                 : picture.channels;
}

float at(const Picture& picture, Axis axis, NSUInteger x, NSUInteger y, NSUInteger c,
         NSUInteger place) {
  return picture.get(axis == Axis::kRow ? place : x, axis == Axis::kColumn ? place : y,
                     axis == Axis::kChannels ? place : c);
}

apple::UnaryWork reduce(Axis axis, Kind kind, double weight = 1) {
  return [=](const Picture& from, const Picture& to) {
    to.each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
      double value = at(from, axis, x, y, c, 0);
      const NSUInteger count = length(from, axis);
      for (NSUInteger place = 1; place < count; ++place) {
        const double next = at(from, axis, x, y, c, place);
        value = kind == Kind::kMin   ? std::min(value, next)
                : kind == Kind::kMax ? std::max(value, next)
                                     : value + next;
      }
      if (kind == Kind::kMean) value /= static_cast<double>(count);
      to.set(x, y, c, static_cast<float>(value * weight));
    });
  };
}

}  // namespace

@implementation MPSNNReduceUnary
MEMBERS(MPSNNReduceUnary)
- (instancetype)initWithDevice:(id<MTLDevice>)device {
  return [self apple_initWithDevice:device];
}
- (instancetype)apple_initWithDevice:(id<MTLDevice>)device {
  self = [super initWithDevice:device];
  _clipRectSource = MPSRectNoClip;
  return self;
}
- (void)apple_checkSource:(Extent)source result:(Extent)result {
  const std::string name = class_getName(object_getClass(self));
  const bool row = name.find("Row") != std::string::npos;
  const bool column = name.find("Column") != std::string::npos;
  const Extent expected{row ? 1 : source.width, column ? 1 : source.height,
                        row || column ? source.channels : 1};
  if (!(result == expected)) apple::broken(name.c_str(), "its result is not one texel or channel");
  if (_clipRectSource.size.width < source.width || _clipRectSource.size.height < source.height)
    apple::broken(name.c_str(), "a clipRectSource has no behaviour on this double");
}
@end

@implementation MPSNNReduceRowSum
MEMBERS(MPSNNReduceRowSum)
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return reduce(Axis::kRow, Kind::kSum);
}
@end

@implementation MPSNNReduceRowMean
MEMBERS(MPSNNReduceRowMean)
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return reduce(Axis::kRow, Kind::kMean);
}
@end

@implementation MPSNNReduceRowMin
MEMBERS(MPSNNReduceRowMin)
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return reduce(Axis::kRow, Kind::kMin);
}
@end

@implementation MPSNNReduceRowMax
MEMBERS(MPSNNReduceRowMax)
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return reduce(Axis::kRow, Kind::kMax);
}
@end

@implementation MPSNNReduceColumnSum
MEMBERS(MPSNNReduceColumnSum)
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return reduce(Axis::kColumn, Kind::kSum);
}
@end

@implementation MPSNNReduceColumnMean
MEMBERS(MPSNNReduceColumnMean)
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return reduce(Axis::kColumn, Kind::kMean);
}
@end

@implementation MPSNNReduceColumnMin
MEMBERS(MPSNNReduceColumnMin)
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return reduce(Axis::kColumn, Kind::kMin);
}
@end

@implementation MPSNNReduceColumnMax
MEMBERS(MPSNNReduceColumnMax)
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return reduce(Axis::kColumn, Kind::kMax);
}
@end

@implementation MPSNNReduceFeatureChannelsSum
MEMBERS(MPSNNReduceFeatureChannelsSum)
- (instancetype)initWithDevice:(id<MTLDevice>)device {
  self = [super apple_initWithDevice:device];
  _weight = 1;
  return self;
}
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return reduce(Axis::kChannels, Kind::kSum, double{_weight});
}
@end

@implementation MPSNNReduceFeatureChannelsMean
MEMBERS(MPSNNReduceFeatureChannelsMean)
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return reduce(Axis::kChannels, Kind::kMean);
}
@end

@implementation MPSNNReduceFeatureChannelsMin
MEMBERS(MPSNNReduceFeatureChannelsMin)
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return reduce(Axis::kChannels, Kind::kMin);
}
@end

@implementation MPSNNReduceFeatureChannelsMax
MEMBERS(MPSNNReduceFeatureChannelsMax)
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return reduce(Axis::kChannels, Kind::kMax);
}
@end
