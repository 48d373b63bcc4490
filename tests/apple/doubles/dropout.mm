// Dropout. Apple does not say how its mask is drawn: this one is another, and its state shows it.
// The masks of a fresh kernel are a function of its seed, unless APPLE_DOUBLE_DROPOUT names what is
// otherwise: "forgets" its seed's last masks, "ignores_seed", "ignores_strides", "by_source" (the
// mask depends on what is masked), "unscaled".
// https://developer.apple.com/documentation/metalperformanceshaders/mpscnndropout
#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "kernel.h"

struct MPSCNNDropoutInside {
  std::uint64_t drawn = 0;  // masks so far
};

struct MPSCNNDropoutGradientStateInside {
  std::vector<std::vector<unsigned char>> masks;  // (y, x, channel) of what each is drawn for
  NSUInteger width = 0, height = 0, channels = 0;
  std::size_t written = 0, read = 0;  // masks that were encoded so far
};

namespace {

using apple::Picture;

bool differs_by(const char* what) {
  const char* asked = std::getenv("APPLE_DOUBLE_DROPOUT");
  return asked != nullptr && std::string_view(asked) == what;
}

// Evenly spread bits of a number (the finalizer of SplitMix64).
std::uint64_t mixed(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  return bits ^ (bits >> 31);
}

bool kept(const MPSCNNDropoutGradientStateInside& mask, std::size_t image, NSUInteger x,
          NSUInteger y, NSUInteger c) {
  const NSUInteger mx = std::min(x, mask.width - 1), my = std::min(y, mask.height - 1);
  const NSUInteger place = (my * mask.width + mx) * mask.channels + std::min(c, mask.channels - 1);
  return mask.masks[image][place] != 0;
}

void drop(const MPSCNNDropoutGradientStateInside& mask, std::size_t image, float keep,
          const Picture& from, const Picture& to) {
  const float divisor = differs_by("unscaled") ? 1 : keep;
  const bool inverts = differs_by("by_source") && from.get(0, 0, 0) < 0;
  from.each([&](NSUInteger x, NSUInteger y, NSUInteger c) {
    to.set(x, y, c, kept(mask, image, x, y, c) != inverts ? from.get(x, y, c) / divisor : 0);
  });
}

void expect_probability(float keep, MTLSize strides) {
  apple::expect(keep > 0 && keep < 1, "the probability to keep is between 0 and 1");
  apple::expect(strides.width <= 1 && strides.height <= 1 && strides.depth <= 1,
                "strides of a mask are 0 or 1");
}

}  // namespace

@implementation MPSCNNDropoutGradientState
MEMBERS(MPSCNNDropoutGradientState)
- (NSData*)maskData {
  const auto& mask = inside_MPSCNNDropoutGradientState->masks[0];
  return [NSData dataWithBytes:mask.data() length:mask.size()];
}
@end

@implementation MPSCNNDropout
MEMBERS(MPSCNNDropout)
- (instancetype)initWithDevice:(id<MTLDevice>)device
               keepProbability:(float)keepProbability
                          seed:(NSUInteger)seed
            maskStrideInPixels:(MTLSize)maskStrideInPixels {
  expect_probability(keepProbability, maskStrideInPixels);
  self = [super initWithDevice:device];
  _keepProbability = keepProbability;
  _seed = seed;
  _maskStrideInPixels = maskStrideInPixels;
  inside_MPSCNNDropout = std::make_shared<MPSCNNDropoutInside>();
  return self;
}
- (BOOL)isResultStateReusedAcrossBatch {
  return !apple::lenient();
}
- (MPSState*)apple_stateForCommands:(id<MTLCommandBuffer>)commands
                             source:(MPSImage*)source
                        destination:(MPSImage*)destination {
  (void)destination;
  auto* state = (MPSCNNDropoutGradientState*)apple::make_state([MPSCNNDropoutGradientState class],
                                                               commands, {});
  state->inside_MPSCNNDropoutGradientState = std::make_shared<MPSCNNDropoutGradientStateInside>();
  auto& mask = *state->inside_MPSCNNDropoutGradientState;
  const bool all = differs_by("ignores_strides");
  mask.width = _maskStrideInPixels.width == 0 && !all ? 1 : [source width];
  mask.height = _maskStrideInPixels.height == 0 && !all ? 1 : [source height];
  mask.channels = _maskStrideInPixels.depth == 0 && !all ? 1 : [source featureChannels];
  [self apple_drawInto:mask];
  return state;
}
- (void)apple_drawInto:(MPSCNNDropoutGradientStateInside&)state {
  auto& mask = state.masks.emplace_back();
  static std::uint64_t drawn_by_all = 0;
  std::uint64_t& drawn = differs_by("forgets") ? drawn_by_all : inside_MPSCNNDropout->drawn;
  const std::uint64_t first = mixed(differs_by("ignores_seed") ? 0 : _seed) + mixed(++drawn);
  for (NSUInteger index = 0; index < state.width * state.height * state.channels; ++index) {
    const double uniform = static_cast<double>(mixed(first + index) >> 11) * 0x1p-53;
    mask.push_back(uniform < _keepProbability);
  }
}
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  apple::expect([state isKindOfClass:[MPSCNNDropoutGradientState class]],
                "dropout is encoded with a state, which has the mask");
  const auto mask = ((MPSCNNDropoutGradientState*)state)->inside_MPSCNNDropoutGradientState;
  const std::size_t image = mask->written++;
  if (image == mask->masks.size()) [self apple_drawInto:*mask];
  return [mask, image, keep = _keepProbability](const Picture& from, const Picture& to) {
    drop(*mask, image, keep, from, to);
  };
}
@end

@implementation MPSCNNDropoutGradient
MEMBERS(MPSCNNDropoutGradient)
- (instancetype)initWithDevice:(id<MTLDevice>)device
               keepProbability:(float)keepProbability
                          seed:(NSUInteger)seed
            maskStrideInPixels:(MTLSize)maskStrideInPixels {
  expect_probability(keepProbability, maskStrideInPixels);
  self = [super initWithDevice:device];
  _keepProbability = keepProbability;
  _seed = seed;
  _maskStrideInPixels = maskStrideInPixels;
  return self;
}
- (BOOL)apple_needsState {
  return YES;
}
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  const auto mask = ((MPSCNNDropoutGradientState*)state)->inside_MPSCNNDropoutGradientState;
  const std::size_t image = mask->read++;
  apple::expect(image < mask->written, "a gradient of dropout for more images than were masked");
  return [mask, image, keep = _keepProbability](const Picture& gradient, const Picture&,
                                                const Picture& to) {
    drop(*mask, image, keep, gradient, to);
  };
}
@end
