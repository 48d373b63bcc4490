// The gradients of convolution and fully connected.
// https://developer.apple.com/documentation/metalperformanceshaders/mpscnnconvolutiongradient
#include "convolution.h"

namespace apple {
namespace {

// Where the gradient with respect to the source is written, kernelOffset says which result texels
// the rotated kernel meets: texel x of the source was read at tap p by result i where
// stride i = x + kernelOffset + reach - 1 - floor(reach / 2) - dilation p.
struct Meeting {
  NSInteger begin, stride, dilation, count;
  // The result that reads source texel x at this tap, or -1.
  NSInteger at(NSUInteger x, NSUInteger tap) const {
    const NSInteger position = signed_of(x) + begin - dilation * signed_of(tap);
    if (position < 0 || position % stride != 0 || position / stride >= count) return -1;
    return position / stride;
  }
};

void data_gradient(const ConvolutionWeights& w, Meeting across, Meeting down,
                   const Picture& gradient, const Picture& to) {
  for (NSUInteger y = 0; y < to.height(); ++y)
    for (NSUInteger x = 0; x < to.width(); ++x)
      for (NSUInteger channel = 0; channel < w.inputs; ++channel) {
        const NSUInteger group = channel / w.inputs_of_group();
        const NSUInteger input = channel % w.inputs_of_group();
        double sum = 0;
        for (NSUInteger q = 0; q < w.height; ++q)
          for (NSUInteger p = 0; p < w.width; ++p) {
            const NSInteger i = across.at(x, p), j = down.at(y, q);
            if (i < 0 || j < 0) continue;
            for (NSUInteger k = 0; k < w.outputs_of_group(); ++k) {
              const NSUInteger output = group * w.outputs_of_group() + k;
              sum += double{w.weights[w.index(output, q, p, input)]} *
                     gradient.get_or_zero(i, j, output);
            }
          }
        to.set(x, y, channel, static_cast<float>(sum));
      }
}

// Adds to the sums of the state: all images of a batch share it.
void weights_gradient(const ConvolutionWeights& w, NSInteger left, NSInteger top,
                      const Picture& gradient, const Picture& from, float* of_weights,
                      float* of_biases) {
  std::vector<double> sums(w.weights.size());
  for (NSUInteger output = 0; output < w.outputs; ++output) {
    double bias = 0;
    for (NSUInteger y = 0; y < gradient.height(); ++y)
      for (NSUInteger x = 0; x < gradient.width(); ++x) {
        const double error = gradient.get(x, y, output);
        bias += error;
        each_tap(w, output, left + signed_of(x * w.stride_x), top + signed_of(y * w.stride_y),
                 [&](NSUInteger weight, NSInteger sx, NSInteger sy, NSUInteger channel) {
                   sums[weight] += error * from.get_or_zero(sx, sy, channel);
                 });
      }
    of_biases[output] += static_cast<float>(bias);
  }
  for (std::size_t index = 0; index < sums.size(); ++index)
    of_weights[index] += static_cast<float>(sums[index]);
}

}  // namespace
}  // namespace apple

@implementation MPSCNNConvolutionGradient
MEMBERS(MPSCNNConvolutionGradient)
- (instancetype)initWithDevice:(id<MTLDevice>)device
                       weights:(id<MPSCNNConvolutionDataSource>)weights {
  self = [super initWithDevice:device];
  _dataSource = [weights retain];
  [self reloadWeightsAndBiasesFromDataSource];
  const apple::ConvolutionWeights& w = *inside_MPSCNNConvolutionGradient->weights;
  apple::expect(w.neuron.type == MPSCNNNeuronTypeNone,
                "a convolution with a fused neuron has no gradient");
  _sourceGradientFeatureChannels = w.outputs;
  _sourceImageFeatureChannels = w.inputs;
  _groups = w.groups;
  _channelMultiplier = w.depthwise ? 1 : 0;
  _gradientOption = MPSCNNConvolutionGradientOptionAll;
  return self;
}
- (void)reloadWeightsAndBiasesFromDataSource {
  inside_MPSCNNConvolutionGradient = std::make_shared<MPSCNNConvolutionGradientInside>();
  inside_MPSCNNConvolutionGradient->weights =
      std::make_shared<apple::ConvolutionWeights>(_dataSource);
}
- (void)reloadWeightsAndBiasesWithCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                                          state:(MPSCNNConvolutionWeightsAndBiasesState*)state {
  apple::reload(inside_MPSCNNConvolutionGradient->weights, state, commandBuffer,
                "the reload of MPSCNNConvolutionGradient");
}
- (void)apple_checkPrimary:(apple::Extent)primary
                 secondary:(apple::Extent)secondary
                    result:(apple::Extent)result {
  if (primary.channels != _sourceGradientFeatureChannels ||
      secondary.channels != _sourceImageFeatureChannels)
    apple::broken("MPSCNNConvolutionGradient", "its images have not the channels of the weights");
  if ((_gradientOption & MPSCNNConvolutionGradientOptionGradientWithData) != 0 &&
      !(secondary == result))
    apple::broken("MPSCNNConvolutionGradient", "its result has not the size of the forward source");
}
// How far the first window of the forward kernel lay from the source's begin, by secondaryOffset,
// and where the rotated kernel begins, by kernelOffset: both are the caller's to set.
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  const MPSCNNConvolutionGradientOption option = _gradientOption;
  if (state == nil && (option & MPSCNNConvolutionGradientOptionGradientWithWeightsAndBias) != 0)
    apple::broken("MPSCNNConvolutionGradient", "gradients of weights need a gradient state");
  if (_primaryOffset.x != 0 || _primaryOffset.y != 0)
    apple::broken("MPSCNNConvolutionGradient", "its primaryOffset is not zero");
  const auto weights = inside_MPSCNNConvolutionGradient->weights;
  const auto& w = *weights;
  if (!w.whole_image) [self apple_checkOffsets:w];
  const auto sx = apple::signed_of(w.stride_x), sy = apple::signed_of(w.stride_y);
  const auto dx = apple::signed_of(w.dilation_x), dy = apple::signed_of(w.dilation_y);
  const NSInteger left = w.whole_image ? 0 : _secondaryOffset.x;
  const NSInteger top = w.whole_image ? 0 : _secondaryOffset.y;
  const auto rx = apple::signed_of(w.reach_x()), ry = apple::signed_of(w.reach_y());
  const NSInteger begin_x = w.whole_image ? 0 : _kernelOffsetX + rx - 1 - rx / 2;
  const NSInteger begin_y = w.whole_image ? 0 : _kernelOffsetY + ry - 1 - ry / 2;
  auto* sums = (MPSCNNConvolutionGradientState*)state;
  const bool of_data = [self apple_writesDestination];
  const auto take = of_data ? apple::first_taken(weights, _dataSource) : [] {};
  using State = apple::Kept<MPSCNNConvolutionGradientState*>;
  return [=, kept = State(sums)](const apple::Picture& gradient, const apple::Picture& from,
                                 const apple::Picture& to) {
    if ((option & MPSCNNConvolutionGradientOptionGradientWithWeightsAndBias) != 0)
      apple::weights_gradient(*weights, left, top, gradient, from,
                              apple::floats(kept.get()->_gradientForWeights),
                              apple::floats(kept.get()->_gradientForBiases));
    take();
    if (of_data)
      apple::data_gradient(*weights, {begin_x, sx, dx, apple::signed_of(gradient.width())},
                           {begin_y, sy, dy, apple::signed_of(gradient.height())}, gradient, to);
  };
}
// kernelOffset = -offset + (1 where the reach is even), secondaryOffset = offset - reach / 2.
- (void)apple_checkOffsets:(const apple::ConvolutionWeights&)w {
  const auto rx = apple::signed_of(w.reach_x()), ry = apple::signed_of(w.reach_y());
  const bool both = _gradientOption == MPSCNNConvolutionGradientOptionAll;
  if (both && (_kernelOffsetX != -(_secondaryOffset.x + rx / 2) + (rx % 2 == 0 ? 1 : 0) ||
               _kernelOffsetY != -(_secondaryOffset.y + ry / 2) + (ry % 2 == 0 ? 1 : 0)))
    apple::broken(
        "MPSCNNConvolutionGradient",
        "its kernelOffset and its secondaryOffset belong to no offset of the forward kernel");
}
- (BOOL)apple_writesDestination {
  return (_gradientOption & MPSCNNConvolutionGradientOptionGradientWithData) != 0;
}
- (BOOL)apple_needsState {
  return (_gradientOption & MPSCNNConvolutionGradientOptionGradientWithWeightsAndBias) != 0;
}
@end

@implementation MPSCNNFullyConnectedGradient
MEMBERS(MPSCNNFullyConnectedGradient)
- (void)reloadWeightsAndBiasesFromDataSource {
  [super reloadWeightsAndBiasesFromDataSource];
  inside_MPSCNNConvolutionGradient->weights->whole_image = true;
}
@end
