// Sums, means, minima and maxima along a row, a column or the channels. Apple's pages do not say
// what becomes of NaN and which of equal values an argument names: here NaN comes before numbers,
// and the first of equals counts, as in traingraph.mps. Arguments count from the first channel that
// is read. https://developer.apple.com/documentation/metalperformanceshaders/mpsnnreduceunary
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnreducebinary
#include <algorithm>
#include <cmath>

#include "kernel.h"

namespace {

using apple::Extent;
using apple::Picture;

enum class Axis { kRow, kColumn, kChannels };
enum class Kind { kSum, kMean, kMin, kMax, kArgumentMin, kArgumentMax };

struct Reduction {
  Axis axis;
  Kind kind;
};

// The rectangle of an image that is read.
struct View {
  Picture picture;
  NSUInteger left, top, width, height;

  View(const Picture& picture, const MTLRegion& clip)
      : picture(picture),
        left(clip.origin.x),
        top(clip.origin.y),
        width(std::min(clip.size.width, picture.width() - left)),
        height(std::min(clip.size.height, picture.height() - top)) {}
  float get(NSUInteger x, NSUInteger y, NSUInteger c) const {
    return picture.get(left + x, top + y, c);
  }
};

// The size of what is read.
Extent seen(Extent source, const MTLRegion& clip, const char* what) {
  if (clip.origin.x >= source.width || clip.origin.y >= source.height || clip.size.width == 0 ||
      clip.size.height == 0)
    apple::broken(what, "its rectangle of the source is empty");
  return {std::min(clip.size.width, source.width - clip.origin.x),
          std::min(clip.size.height, source.height - clip.origin.y), source.channels};
}

// One texel or channel in place of the axis.
Extent reduced(Extent source, Axis axis) {
  if (axis == Axis::kRow) source.width = 1;
  if (axis == Axis::kColumn) source.height = 1;
  if (axis == Axis::kChannels) source.channels = 1;
  return source;
}

double reduce(Kind kind, NSUInteger count, const std::function<double(NSUInteger)>& at) {
  if (kind == Kind::kSum || kind == Kind::kMean) {
    double sum = 0;
    for (NSUInteger place = 0; place < count; ++place) sum += at(place);
    return kind == Kind::kMean ? sum / static_cast<double>(count) : sum;
  }
  const bool least = kind == Kind::kMin || kind == Kind::kArgumentMin;
  const bool argument = kind == Kind::kArgumentMin || kind == Kind::kArgumentMax;
  NSUInteger found = 0;
  for (NSUInteger place = 1; place < count; ++place) {
    const double value = at(place), best = at(found);
    if ((least ? value < best : value > best) || (std::isnan(value) && !std::isnan(best)))
      found = place;
  }
  return argument ? static_cast<double>(found) : at(found);
}

apple::UnaryWork reduce(Reduction reduction, const MTLRegion& clip, double weight) {
  return [=](const Picture& from, const Picture& to) {
    const View view(from, clip);
    const Axis axis = reduction.axis;
    const NSUInteger count = axis == Axis::kRow      ? view.width
                             : axis == Axis::kColumn ? view.height
                                                     : from.channels;
    const Extent result = reduced({view.width, view.height, from.channels}, axis);
    for (NSUInteger y = 0; y < result.height; ++y)
      for (NSUInteger x = 0; x < result.width; ++x)
        for (NSUInteger c = 0; c < result.channels; ++c) {
          const double value = reduce(reduction.kind, count, [&](NSUInteger place) {
            return double{view.get(axis == Axis::kRow ? place : x,
                                   axis == Axis::kColumn ? place : y,
                                   axis == Axis::kChannels ? place : c)};
          });
          to.set(x, y, c, static_cast<float>(value * weight));
        }
  };
}

}  // namespace

@interface MPSNNReduceUnary (AppleDouble)
- (Reduction)apple_reduction;
- (double)apple_weight;
@end

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
- (double)apple_weight {
  return 1;
}
- (void)apple_checkSource:(Extent)source result:(Extent)result {
  const char* what = class_getName(object_getClass(self));
  if (!(result == reduced(seen(source, _clipRectSource, what), [self apple_reduction].axis)))
    apple::broken(what, "its result is not one texel or channel");
}
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return reduce([self apple_reduction], _clipRectSource, [self apple_weight]);
}
@end

@implementation MPSNNReduceRowSum
MEMBERS(MPSNNReduceRowSum)
- (Reduction)apple_reduction {
  return {Axis::kRow, Kind::kSum};
}
@end

@implementation MPSNNReduceRowMean
MEMBERS(MPSNNReduceRowMean)
- (Reduction)apple_reduction {
  return {Axis::kRow, Kind::kMean};
}
@end

@implementation MPSNNReduceRowMin
MEMBERS(MPSNNReduceRowMin)
- (Reduction)apple_reduction {
  return {Axis::kRow, Kind::kMin};
}
@end

@implementation MPSNNReduceRowMax
MEMBERS(MPSNNReduceRowMax)
- (Reduction)apple_reduction {
  return {Axis::kRow, Kind::kMax};
}
@end

@implementation MPSNNReduceColumnSum
MEMBERS(MPSNNReduceColumnSum)
- (Reduction)apple_reduction {
  return {Axis::kColumn, Kind::kSum};
}
@end

@implementation MPSNNReduceColumnMean
MEMBERS(MPSNNReduceColumnMean)
- (Reduction)apple_reduction {
  return {Axis::kColumn, Kind::kMean};
}
@end

@implementation MPSNNReduceColumnMin
MEMBERS(MPSNNReduceColumnMin)
- (Reduction)apple_reduction {
  return {Axis::kColumn, Kind::kMin};
}
@end

@implementation MPSNNReduceColumnMax
MEMBERS(MPSNNReduceColumnMax)
- (Reduction)apple_reduction {
  return {Axis::kColumn, Kind::kMax};
}
@end

@implementation MPSNNReduceFeatureChannelsSum
MEMBERS(MPSNNReduceFeatureChannelsSum)
- (instancetype)initWithDevice:(id<MTLDevice>)device {
  self = [super apple_initWithDevice:device];
  _weight = 1;
  return self;
}
- (double)apple_weight {
  return _weight;
}
- (Reduction)apple_reduction {
  return {Axis::kChannels, Kind::kSum};
}
@end

@implementation MPSNNReduceFeatureChannelsMean
MEMBERS(MPSNNReduceFeatureChannelsMean)
- (Reduction)apple_reduction {
  return {Axis::kChannels, Kind::kMean};
}
@end

@implementation MPSNNReduceFeatureChannelsMin
MEMBERS(MPSNNReduceFeatureChannelsMin)
- (Reduction)apple_reduction {
  return {Axis::kChannels, Kind::kMin};
}
@end

@implementation MPSNNReduceFeatureChannelsMax
MEMBERS(MPSNNReduceFeatureChannelsMax)
- (Reduction)apple_reduction {
  return {Axis::kChannels, Kind::kMax};
}
@end

@implementation MPSNNReduceFeatureChannelsArgumentMin
MEMBERS(MPSNNReduceFeatureChannelsArgumentMin)
- (Reduction)apple_reduction {
  return {Axis::kChannels, Kind::kArgumentMin};
}
@end

@implementation MPSNNReduceFeatureChannelsArgumentMax
MEMBERS(MPSNNReduceFeatureChannelsArgumentMax)
- (Reduction)apple_reduction {
  return {Axis::kChannels, Kind::kArgumentMax};
}
@end

// --- with weights --------------------------------------------------------------------------------

namespace {

enum class Divisor { kNone, kChannels, kNonZeroWeights };

// Where no weight differs from 0, the sum is divided by 1.
apple::BinaryWork reduce(Divisor divisor, const MTLRegion& of_source, const MTLRegion& of_weights) {
  return [=](const Picture& from, const Picture& weights, const Picture& to) {
    const View source(from, of_source), factors(weights, of_weights);
    for (NSUInteger y = 0; y < source.height; ++y)
      for (NSUInteger x = 0; x < source.width; ++x) {
        double sum = 0, counted = 0;
        for (NSUInteger c = 0; c < from.channels; ++c) {
          const double factor = factors.get(x, y, c);
          sum += source.get(x, y, c) * factor;
          counted += factor != 0;
        }
        if (divisor == Divisor::kChannels) sum /= static_cast<double>(from.channels);
        if (divisor == Divisor::kNonZeroWeights) sum /= std::max(counted, 1.0);
        to.set(x, y, 0, static_cast<float>(sum));
      }
  };
}

}  // namespace

@interface MPSNNReduceBinary (AppleDouble)
- (Divisor)apple_divisor;
@end

@implementation MPSNNReduceBinary
MEMBERS(MPSNNReduceBinary)
- (instancetype)initWithDevice:(id<MTLDevice>)device {
  return [self apple_initWithDevice:device];
}
- (instancetype)apple_initWithDevice:(id<MTLDevice>)device {
  self = [super initWithDevice:device];
  _primarySourceClipRect = _secondarySourceClipRect = MPSRectNoClip;
  return self;
}
- (void)apple_checkPrimary:(Extent)primary secondary:(Extent)secondary result:(Extent)result {
  const char* what = class_getName(object_getClass(self));
  const Extent source = seen(primary, _primarySourceClipRect, what);
  if (!(seen(secondary, _secondarySourceClipRect, what) == source))
    apple::broken(what, "its weights have not the size of the source");
  if (!(result == reduced(source, Axis::kChannels)))
    apple::broken(what, "its result is not one channel");
}
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return reduce([self apple_divisor], _primarySourceClipRect, _secondarySourceClipRect);
}
@end

@implementation MPSNNReduceFeatureChannelsAndWeightsMean
MEMBERS(MPSNNReduceFeatureChannelsAndWeightsMean)
- (instancetype)initWithDevice:(id<MTLDevice>)device {
  return [super apple_initWithDevice:device];
}
- (Divisor)apple_divisor {
  return Divisor::kChannels;
}
@end

@implementation MPSNNReduceFeatureChannelsAndWeightsSum
MEMBERS(MPSNNReduceFeatureChannelsAndWeightsSum)
- (instancetype)initWithDevice:(id<MTLDevice>)device {
  return [self initWithDevice:device doWeightedSumByNonZeroWeights:false];
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
    doWeightedSumByNonZeroWeights:(bool)doWeightedSumByNonZeroWeights {
  self = [super apple_initWithDevice:device];
  _doWeightedSumByNonZeroWeights = doWeightedSumByNonZeroWeights;
  return self;
}
- (Divisor)apple_divisor {
  return _doWeightedSumByNonZeroWeights ? Divisor::kNonZeroWeights : Divisor::kNone;
}
@end
