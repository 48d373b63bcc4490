// Reshaping, padding and Gram matrices of images.
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnreshape
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnpad
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnngrammatrixcalculation
#include "kernel.h"

namespace {

using apple::Extent;
using apple::Picture;
using apple::signed_of;

// A gradient kernel must have what its forward kernel had; without a state nobody knows.
void check_numbers(MPSState* state, const std::vector<double>& numbers, const char* what) {
  if (state != nil && state->inside_MPSState->maker != Nil &&
      state->inside_MPSState->numbers != numbers)
    apple::broken(what, "its properties are not those of the forward kernel of its state");
}

}  // namespace

// --- reshape -------------------------------------------------------------------------------------

// Elements are counted by channels, then rows, then columns, as in traingraph.mps; Apple's pages do
// not say it.
namespace {

void reshape(const Picture& from, const Picture& to) {
  std::vector<float> all;
  for (NSUInteger c = 0; c < from.channels; ++c)
    for (NSUInteger y = 0; y < from.height(); ++y)
      for (NSUInteger x = 0; x < from.width(); ++x) all.push_back(from.get(x, y, c));
  auto next = all.begin();
  for (NSUInteger c = 0; c < to.channels; ++c)
    for (NSUInteger y = 0; y < to.height(); ++y)
      for (NSUInteger x = 0; x < to.width(); ++x) to.set(x, y, c, *next++);
}

void check_elements(Extent from, Extent to, const char* what) {
  if (from.width * from.height * from.channels != to.width * to.height * to.channels)
    apple::broken(what, "source and result differ in their number of elements");
}

}  // namespace

@implementation MPSNNReshape
MEMBERS(MPSNNReshape)
- (void)apple_checkSource:(Extent)source result:(Extent)result {
  check_elements(source, result, "MPSNNReshape");
}
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return reshape;
}
@end

@implementation MPSNNReshapeGradient
MEMBERS(MPSNNReshapeGradient)
- (void)apple_checkPrimary:(Extent)primary secondary:(Extent)secondary result:(Extent)result {
  check_elements(primary, result, "MPSNNReshapeGradient");
  if (!(secondary == result))
    apple::broken("MPSNNReshapeGradient", "its result has not the size of the forward source");
}
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return [](const Picture& gradient, const Picture&, const Picture& to) { reshape(gradient, to); };
}
@end

// --- padding -------------------------------------------------------------------------------------

// With a given destination, its size and the offset say how far an image is padded to the sides;
// paddingSizeBefore and paddingSizeAfter say it for the channels alone.
namespace {

struct Padding {
  NSInteger x, y, channel;  // the source's place that the result's first element reads
  MPSImageEdgeMode mode;

  std::vector<double> numbers() const {
    return {double(x), double(y), double(channel), double(mode)};
  }
};

// The element of a source of this size that padding copies to a place, or -1 where it fills in.
NSInteger copied(NSInteger place, NSUInteger size, MPSImageEdgeMode mode) {
  const NSInteger count = signed_of(size);
  if (place >= 0 && place < count) return place;
  if (mode == MPSImageEdgeModeZero || mode == MPSImageEdgeModeConstant) return -1;
  if (mode == MPSImageEdgeModeClamp) return place < 0 ? 0 : count - 1;
  // There and back again, with or without the elements at the edges twice.
  const bool twice = mode == MPSImageEdgeModeMirrorWithEdge;
  const NSInteger period = twice ? 2 * count : std::max<NSInteger>(1, 2 * count - 2);
  const NSInteger within = (place % period + period) % period;
  return within < count ? within : (twice ? period - 1 : period) - within;
}

// Calls visit(x, y, c of the padded picture, x, y, c of the other); -1 is no place.
template <class Visit>
void each_copied(const Padding& p, const Picture& padded, const Picture& other, Visit visit) {
  padded.each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
    visit(x, y, c, copied(signed_of(x) + p.x, other.width(), p.mode),
          copied(signed_of(y) + p.y, other.height(), p.mode),
          copied(signed_of(c) + p.channel, other.channels, p.mode));
  });
}

}  // namespace

struct MPSNNPadInside {
  std::vector<float> fill_values;  // one per channel of the result, or none
};

@implementation MPSNNPad
MEMBERS(MPSNNPad)
- (instancetype)initWithDevice:(id<MTLDevice>)device {
  self = [super initWithDevice:device];
  inside_MPSNNPad = std::make_shared<MPSNNPadInside>();
  return self;
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
             paddingSizeBefore:(MPSImageCoordinate)paddingSizeBefore
              paddingSizeAfter:(MPSImageCoordinate)paddingSizeAfter
                fillValueArray:(NSData*)fillValueArray {
  self = [self initWithDevice:device
            paddingSizeBefore:paddingSizeBefore
             paddingSizeAfter:paddingSizeAfter];
  const auto* first = static_cast<const float*>([fillValueArray bytes]);
  const NSUInteger count = [fillValueArray length] / sizeof(float);
  inside_MPSNNPad->fill_values.assign(first, first + count);
  if (count != 0) _edgeMode = MPSImageEdgeModeConstant;
  return self;
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
             paddingSizeBefore:(MPSImageCoordinate)paddingSizeBefore
              paddingSizeAfter:(MPSImageCoordinate)paddingSizeAfter {
  self = [self initWithDevice:device];
  _paddingSizeBefore = paddingSizeBefore;
  _paddingSizeAfter = paddingSizeAfter;
  return self;
}
- (Padding)apple_padding {
  return {_offset.x, _offset.y, -signed_of(_paddingSizeBefore.channel), _edgeMode};
}
- (void)apple_checkSource:(Extent)source result:(Extent)result {
  if (result.channels != source.channels + _paddingSizeBefore.channel + _paddingSizeAfter.channel)
    apple::broken("MPSNNPad", "its result has not the channels of the source and of the padding");
  const NSUInteger fills = inside_MPSNNPad->fill_values.size();
  if (fills != 0 && fills != result.channels)
    apple::broken("MPSNNPad", "there is not one fill value per channel of the result");
}
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return [padding = [self apple_padding], fill_values = inside_MPSNNPad->fill_values,
          fill = _fillValue](const Picture& from, const Picture& to) {
    const auto fill_of = [&](NSUInteger c) {
      if (padding.mode != MPSImageEdgeModeConstant) return 0.0f;
      return fill_values.empty() ? fill : fill_values[c];
    };
    each_copied(padding, to, from,
                [&](NSUInteger x, NSUInteger y, NSUInteger c, NSInteger from_x, NSInteger from_y,
                    NSInteger from_c) {
                  const bool filled = from_x < 0 || from_y < 0 || from_c < 0;
                  to.set(x, y, c,
                         filled
                             ? fill_of(c)
                             : from.get_or_zero(from_x, from_y, static_cast<NSUInteger>(from_c)));
                });
  };
}
- (MPSState*)apple_stateForCommands:(id<MTLCommandBuffer>)commands
                             source:(MPSImage*)source
                        destination:(MPSImage*)destination {
  MPSState* state = [super apple_stateForCommands:commands source:source destination:destination];
  state->inside_MPSState->numbers = [self apple_padding].numbers();
  return state;
}
@end

// Apple's pages do not say which properties tell where the source lies in its padding: here the
// primaryOffset, channels included, and the secondaryEdgeMode, as in traingraph.mps.
@implementation MPSNNPadGradient
MEMBERS(MPSNNPadGradient)
- (void)apple_checkPrimary:(Extent)primary secondary:(Extent)secondary result:(Extent)result {
  (void)primary;
  if (!(secondary == result))
    apple::broken("MPSNNPadGradient", "its result has not the size of the forward source");
}
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  const Padding padding{-_primaryOffset.x, -_primaryOffset.y, -_primaryOffset.z,
                        _secondaryEdgeMode};
  check_numbers(state, padding.numbers(), "MPSNNPadGradient");
  return [padding](const Picture& gradient, const Picture&, const Picture& to) {
    std::vector<double> sums(to.width() * to.height() * to.channels);
    const auto index = [&](auto x, auto y, auto c) {
      return (static_cast<NSUInteger>(y) * to.width() + static_cast<NSUInteger>(x)) * to.channels +
             static_cast<NSUInteger>(c);
    };
    each_copied(padding, gradient, to,
                [&](NSUInteger x, NSUInteger y, NSUInteger c, NSInteger to_x, NSInteger to_y,
                    NSInteger to_c) {
                  if (to_x >= 0 && to_y >= 0 && to_c >= 0)
                    sums[index(to_x, to_y, to_c)] += gradient.get(x, y, c);
                });
    to.each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
      to.set(x, y, c, static_cast<float>(sums[index(x, y, c)]));
    });
  };
}
@end

// --- Gram matrices -------------------------------------------------------------------------------

// One row of as many texels as there are channels: channel f of texel c is alpha sum x_f x_c. The
// gradient is its derivative, which Apple's pages do not show.
namespace {

void check_gram(Extent source, Extent result, const char* what) {
  if (!(result == Extent{source.channels, 1, source.channels}))
    apple::broken(what, "a Gram matrix is one row of as many texels as the source has channels");
}

}  // namespace

@implementation MPSNNGramMatrixCalculation
MEMBERS(MPSNNGramMatrixCalculation)
- (instancetype)initWithDevice:(id<MTLDevice>)device alpha:(float)alpha {
  self = [super initWithDevice:device];
  _alpha = alpha;
  return self;
}
- (instancetype)initWithDevice:(id<MTLDevice>)device {
  return [self initWithDevice:device alpha:1];
}
- (void)apple_checkSource:(Extent)source result:(Extent)result {
  check_gram(source, result, "MPSNNGramMatrixCalculation");
}
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  return [alpha = _alpha](const Picture& from, const Picture& to) {
    for (NSUInteger f = 0; f < from.channels; ++f)
      for (NSUInteger c = 0; c < from.channels; ++c) {
        double sum = 0;
        for (NSUInteger y = 0; y < from.height(); ++y)
          for (NSUInteger x = 0; x < from.width(); ++x)
            sum += double{from.get(x, y, f)} * from.get(x, y, c);
        to.set(c, 0, f, static_cast<float>(alpha * sum));
      }
  };
}
- (MPSState*)apple_stateForCommands:(id<MTLCommandBuffer>)commands
                             source:(MPSImage*)source
                        destination:(MPSImage*)destination {
  MPSState* state = [super apple_stateForCommands:commands source:source destination:destination];
  state->inside_MPSState->numbers = {_alpha};
  return state;
}
@end

@implementation MPSNNGramMatrixCalculationGradient
MEMBERS(MPSNNGramMatrixCalculationGradient)
- (instancetype)initWithDevice:(id<MTLDevice>)device alpha:(float)alpha {
  self = [super initWithDevice:device];
  _alpha = alpha;
  return self;
}
- (instancetype)initWithDevice:(id<MTLDevice>)device {
  return [self initWithDevice:device alpha:1];
}
- (void)apple_checkPrimary:(Extent)primary secondary:(Extent)secondary result:(Extent)result {
  check_gram(secondary, primary, "MPSNNGramMatrixCalculationGradient");
  if (!(secondary == result))
    apple::broken("MPSNNGramMatrixCalculationGradient",
                  "its result has not the size of the forward source");
}
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  check_numbers(state, {_alpha}, "MPSNNGramMatrixCalculationGradient");
  return [alpha = _alpha](const Picture& gradient, const Picture& source, const Picture& to) {
    source.each([&](NSUInteger x, NSUInteger y, NSUInteger f) {
      double sum = 0;
      for (NSUInteger c = 0; c < source.channels; ++c)
        sum += (double{gradient.get(c, 0, f)} + gradient.get(f, 0, c)) * source.get(x, y, c);
      to.set(x, y, f, static_cast<float>(alpha * sum));
    });
  };
}
@end
