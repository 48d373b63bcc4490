// Transposed convolution: between the source's texels lie stride - 1 zeros, and a window slides
// over that with stride 1; the weights are not turned. Apple's pages say of the window that offset
// counts texels of the source and kernelOffset those of the widened one. That it begins half its
// reach before, and that the gradient kernel has the forward offset as its secondaryOffset, is
// inferred from the other kernels, as in traingraph.mps. With APPLE_DOUBLE_BEGINS_AT_CORNER the
// window of the class that it names begins there instead.
// https://developer.apple.com/documentation/metalperformanceshaders/mpscnnconvolutiontranspose
// https://docs.rs/objc2-metal-performance-shaders/latest/objc2_metal_performance_shaders/struct.MPSCNNConvolutionTranspose.html
#include <cstdlib>

#include "convolution.h"

namespace {

using apple::ConvolutionWeights;
using apple::Extent;
using apple::Picture;
using apple::signed_of;

// Where the window of result (0, 0) begins in the widened source.
struct Begin {
  NSInteger x, y;

  Begin(const ConvolutionWeights& w, MPSOffset offset, NSInteger kernel_x, NSInteger kernel_y)
      : x(offset.x * signed_of(w.stride_x) + kernel_x - signed_of(w.reach_x() / 2)),
        y(offset.y * signed_of(w.stride_y) + kernel_y - signed_of(w.reach_y() / 2)) {}
  std::vector<double> numbers() const { return {static_cast<double>(x), static_cast<double>(y)}; }
  // As this class computes.
  Begin of(const char* what, const ConvolutionWeights& w) const {
    const char* const other = std::getenv("APPLE_DOUBLE_BEGINS_AT_CORNER");
    Begin begin = *this;
    if (other == nullptr || std::string(other) != what) return begin;
    begin.x += signed_of(w.reach_x() / 2);
    begin.y += signed_of(w.reach_y() / 2);
    return begin;
  }
};

// Calls visit(weight index, source x, source y, source channel) for what one result reads of the
// source's own texels.
template <class Visit>
void each_read(const ConvolutionWeights& w, Begin begin, const Picture& source, NSUInteger output,
               NSUInteger x, NSUInteger y, Visit visit) {
  const auto sx = signed_of(w.stride_x), sy = signed_of(w.stride_y);
  apple::each_tap(w, output, begin.x + signed_of(x), begin.y + signed_of(y),
                  [&](NSUInteger weight, NSInteger wide_x, NSInteger wide_y, NSUInteger channel) {
                    if (wide_x % sx != 0 || wide_y % sy != 0) return;
                    if (source.has(wide_x / sx, wide_y / sy))
                      visit(weight, wide_x / sx, wide_y / sy, channel);
                  });
}

void transpose(const ConvolutionWeights& w, Begin begin, const Picture& from, const Picture& to) {
  for (NSUInteger y = 0; y < to.height(); ++y)
    for (NSUInteger x = 0; x < to.width(); ++x)
      for (NSUInteger output = 0; output < w.outputs; ++output) {
        double sum = w.biases.empty() ? 0 : w.biases[output];
        each_read(w, begin, from, output, x, y,
                  [&](NSUInteger weight, NSInteger sx, NSInteger sy, NSUInteger channel) {
                    sum += double{w.weights[weight]} * from.get_or_zero(sx, sy, channel);
                  });
        to.set(x, y, output, static_cast<float>(w.neuron.value(sum, output)));
      }
}

// Calls visit(error, weight index, source x, source y, source channel) for each product of the
// forward kernel.
template <class Visit>
void each_product(const ConvolutionWeights& w, Begin begin, const Picture& gradient,
                  const Picture& source, Visit visit) {
  for (NSUInteger y = 0; y < gradient.height(); ++y)
    for (NSUInteger x = 0; x < gradient.width(); ++x)
      for (NSUInteger output = 0; output < w.outputs; ++output) {
        const double error = gradient.get(x, y, output);
        each_read(w, begin, source, output, x, y,
                  [&](NSUInteger weight, NSInteger sx, NSInteger sy, NSUInteger channel) {
                    visit(error, weight, sx, sy, channel);
                  });
      }
}

void data_gradient(const ConvolutionWeights& w, Begin begin, const Picture& gradient,
                   const Picture& source, const Picture& to) {
  std::vector<double> sums(to.width() * to.height() * w.inputs);
  const auto index = [&](auto x, auto y, NSUInteger channel) {
    return (static_cast<NSUInteger>(y) * to.width() + static_cast<NSUInteger>(x)) * w.inputs +
           channel;
  };
  each_product(w, begin, gradient, source,
               [&](double error, NSUInteger weight, NSInteger x, NSInteger y, NSUInteger channel) {
                 sums[index(x, y, channel)] += error * w.weights[weight];
               });
  for (NSUInteger y = 0; y < to.height(); ++y)
    for (NSUInteger x = 0; x < to.width(); ++x)
      for (NSUInteger channel = 0; channel < w.inputs; ++channel)
        to.set(x, y, channel, static_cast<float>(sums[index(x, y, channel)]));
}

// Adds to the sums of the state: all images of a batch share it.
void weights_gradient(const ConvolutionWeights& w, Begin begin, const Picture& gradient,
                      const Picture& source, float* of_weights, float* of_biases) {
  std::vector<double> sums(w.weights.size()), errors(w.outputs);
  each_product(w, begin, gradient, source,
               [&](double error, NSUInteger weight, NSInteger x, NSInteger y, NSUInteger channel) {
                 sums[weight] += error * source.get_or_zero(x, y, channel);
               });
  gradient.each([&](NSUInteger x, NSUInteger y, NSUInteger output) {
    if (output < w.outputs) errors[output] += gradient.get(x, y, output);
  });
  for (std::size_t k = 0; k < sums.size(); ++k) of_weights[k] += static_cast<float>(sums[k]);
  for (std::size_t k = 0; k < errors.size(); ++k) of_biases[k] += static_cast<float>(errors[k]);
}

}  // namespace

@implementation MPSCNNConvolutionTransposeGradientState
MEMBERS(MPSCNNConvolutionTransposeGradientState)
@end

@implementation MPSCNNConvolutionTranspose
MEMBERS(MPSCNNConvolutionTranspose)
- (instancetype)initWithDevice:(id<MTLDevice>)device
                       weights:(id<MPSCNNConvolutionDataSource>)weights {
  self = [super initWithDevice:device];
  _dataSource = [weights retain];
  [self reloadWeightsAndBiasesFromDataSource];
  const ConvolutionWeights& w = *inside_MPSCNNConvolutionTranspose->weights;
  _inputFeatureChannels = w.inputs;
  _outputFeatureChannels = w.outputs;
  _groups = w.groups;
  _kernelWidth = w.width, _kernelHeight = w.height;
  _strideInPixelsX = w.stride_x, _strideInPixelsY = w.stride_y;
  _dilationRateX = w.dilation_x, _dilationRateY = w.dilation_y;
  return self;
}
- (void)reloadWeightsAndBiasesFromDataSource {
  inside_MPSCNNConvolutionTranspose = std::make_shared<MPSCNNConvolutionTransposeInside>();
  inside_MPSCNNConvolutionTranspose->weights = std::make_shared<ConvolutionWeights>(_dataSource);
}
- (void)reloadWeightsAndBiasesWithCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                                          state:(MPSCNNConvolutionWeightsAndBiasesState*)state {
  apple::reload(inside_MPSCNNConvolutionTranspose->weights, state, commandBuffer,
                "the reload of MPSCNNConvolutionTranspose");
}
- (MPSCNNConvolutionWeightsAndBiasesState*)
    exportWeightsAndBiasesWithCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                  resultStateCanBeTemporary:(BOOL)resultStateCanBeTemporary {
  (void)resultStateCanBeTemporary;
  return apple::export_weights(inside_MPSCNNConvolutionTranspose->weights, [self device],
                               commandBuffer);
}
- (BOOL)isResultStateReusedAcrossBatch {
  return YES;
}
- (void)apple_checkSource:(Extent)source result:(Extent)result {
  if (source.channels != _inputFeatureChannels)
    apple::broken("MPSCNNConvolutionTranspose",
                  "the source has not the input channels of the weights");
  if (result.channels < _outputFeatureChannels)
    apple::broken("MPSCNNConvolutionTranspose", "the result has fewer channels than the weights");
}
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  apple::expect(
      state == nil || [state isKindOfClass:[MPSCNNConvolutionTransposeGradientState class]],
      "the state of a transposed convolution is one of another kernel");
  apple::expect(_edgeMode == MPSImageEdgeModeZero,
                "a transposed convolution reads zeros outside of its source");
  const auto weights = inside_MPSCNNConvolutionTranspose->weights;
  const Begin begin(*weights, _offset, _kernelOffsetX, _kernelOffsetY);
  if (state != nil) state->inside_MPSState->numbers = begin.numbers();
  return [weights, first = begin.of("MPSCNNConvolutionTranspose", *weights)](
             const Picture& from, const Picture& to) { transpose(*weights, first, from, to); };
}
- (MPSState*)apple_stateForCommands:(id<MTLCommandBuffer>)commands
                             source:(MPSImage*)source
                        destination:(MPSImage*)destination {
  (void)source, (void)destination;
  const ConvolutionWeights& w = *inside_MPSCNNConvolutionTranspose->weights;
  auto* state = (MPSCNNConvolutionTransposeGradientState*)apple::make_gradient_state(
      [MPSCNNConvolutionTransposeGradientState class], w, [self device], commands);
  state->_convolutionTranspose = [self retain];
  state->inside_MPSState->numbers = Begin(w, _offset, _kernelOffsetX, _kernelOffsetY).numbers();
  return state;
}
@end

@implementation MPSCNNConvolutionTransposeGradient
MEMBERS(MPSCNNConvolutionTransposeGradient)
- (instancetype)initWithDevice:(id<MTLDevice>)device
                       weights:(id<MPSCNNConvolutionDataSource>)weights {
  self = [super initWithDevice:device];
  _dataSource = [weights retain];
  [self reloadWeightsAndBiasesFromDataSource];
  const ConvolutionWeights& w = *inside_MPSCNNConvolutionTransposeGradient->weights;
  apple::expect(w.neuron.type == MPSCNNNeuronTypeNone,
                "a transposed convolution with a fused neuron has no gradient");
  _sourceGradientFeatureChannels = w.outputs;
  _sourceImageFeatureChannels = w.inputs;
  _groups = w.groups;
  _gradientOption = MPSCNNConvolutionGradientOptionAll;
  return self;
}
- (void)reloadWeightsAndBiasesFromDataSource {
  inside_MPSCNNConvolutionTransposeGradient =
      std::make_shared<MPSCNNConvolutionTransposeGradientInside>();
  inside_MPSCNNConvolutionTransposeGradient->weights =
      std::make_shared<ConvolutionWeights>(_dataSource);
}
- (void)reloadWeightsAndBiasesWithCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                                          state:(MPSCNNConvolutionWeightsAndBiasesState*)state {
  apple::reload(inside_MPSCNNConvolutionTransposeGradient->weights, state, commandBuffer,
                "the reload of MPSCNNConvolutionTransposeGradient");
}
- (void)apple_checkPrimary:(Extent)primary secondary:(Extent)secondary result:(Extent)result {
  const char* what = "MPSCNNConvolutionTransposeGradient";
  if (primary.channels != _sourceGradientFeatureChannels ||
      secondary.channels != _sourceImageFeatureChannels)
    apple::broken(what, "its images have not the channels of the weights");
  if ([self apple_writesDestination] && !(secondary == result))
    apple::broken(what, "its result has not the size of the forward source");
}
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  const char* what = "MPSCNNConvolutionTransposeGradient";
  const bool of_weights = [self apple_needsState], of_data = [self apple_writesDestination];
  if (_primaryOffset.x != 0 || _primaryOffset.y != 0)
    apple::broken(what, "its primaryOffset is not zero");
  const auto weights = inside_MPSCNNConvolutionTransposeGradient->weights;
  const Begin begin(*weights, _secondaryOffset, _kernelOffsetX, _kernelOffsetY);
  if (state != nil && state->inside_MPSState->numbers != begin.numbers())
    apple::broken(what, "its offsets are not those of the forward kernel of its state");
  const auto take = of_data ? apple::first_taken(weights, _dataSource) : [] {};
  using State = apple::Kept<MPSCNNConvolutionGradientState*>;
  return
      [=, first = begin.of(what, *weights), kept = State((MPSCNNConvolutionGradientState*)state)](
          const Picture& gradient, const Picture& source, const Picture& to) {
        if (of_weights)
          weights_gradient(*weights, first, gradient, source,
                           apple::floats(kept.get()->_gradientForWeights),
                           apple::floats(kept.get()->_gradientForBiases));
        take();
        if (of_data) data_gradient(*weights, first, gradient, source, to);
      };
}
- (BOOL)apple_writesDestination {
  return (_gradientOption & MPSCNNConvolutionGradientOptionGradientWithData) != 0;
}
- (BOOL)apple_needsState {
  return (_gradientOption & MPSCNNConvolutionGradientOptionGradientWithWeightsAndBias) != 0;
}
@end
