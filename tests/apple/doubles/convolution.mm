// Convolution and fully connected.
// https://developer.apple.com/documentation/metalperformanceshaders/mpscnnconvolution
#include "convolution.h"

namespace apple {

ConvolutionWeights::ConvolutionWeights(id<MPSCNNConvolutionDataSource> source) {
  expect(source != nil, "a convolution without a data source");
  expect([source load], "the data source of a convolution could not be loaded");
  const MPSCNNConvolutionDescriptor* descriptor = [source descriptor];
  width = descriptor->_kernelWidth, height = descriptor->_kernelHeight;
  inputs = descriptor->_inputFeatureChannels, outputs = descriptor->_outputFeatureChannels;
  groups = descriptor->_groups;
  stride_x = descriptor->_strideInPixelsX, stride_y = descriptor->_strideInPixelsY;
  dilation_x = descriptor->_dilationRateX, dilation_y = descriptor->_dilationRateY;
  depthwise = [(id)descriptor isKindOfClass:[MPSCNNDepthWiseConvolutionDescriptor class]];
  neuron = Neuron(descriptor->_fusedNeuronDescriptor);
  expect(width * height * inputs * outputs * groups != 0, "a convolution of no extent");
  expect(inputs % groups == 0 && outputs % groups == 0,
         "the groups of a convolution do not divide its channels");
  expect(groups == 1 || depthwise || (inputs / groups % 4 == 0 && outputs / groups % 4 == 0),
         "the channels of a convolution's group are no multiple of four");
  expect(!depthwise || (inputs == outputs && groups == 1),
         "a depthwise convolution has one output for each input, and no groups");
  half = !([(id)source respondsToSelector:@selector(kernelWeightsDataType)] &&
           [source kernelWeightsDataType] == MPSDataTypeFloat32);
  expect([source dataType] == MPSDataTypeFloat32, "weights of this double are float32");
  take(static_cast<const float*>([source weights]), [source biasTerms]);
  [source purge];
}

void ConvolutionWeights::take(const float* new_weights, const float* new_biases) {
  expect(new_weights != nullptr, "a convolution without weights");
  weights.assign(new_weights, new_weights + outputs * height * width * inputs_of_group());
  if (half)
    for (float& weight : weights) weight = to_half_and_back(weight);
  if (new_biases != nullptr) biases.assign(new_biases, new_biases + outputs);
}

namespace {

void convolve(const ConvolutionWeights& w, MPSOffset offset, const Picture& from,
              const Picture& to) {
  const NSInteger left = w.whole_image ? 0 : offset.x - signed_of(w.reach_x() / 2);
  const NSInteger top = w.whole_image ? 0 : offset.y - signed_of(w.reach_y() / 2);
  for (NSUInteger y = 0; y < to.height(); ++y)
    for (NSUInteger x = 0; x < to.width(); ++x)
      for (NSUInteger output = 0; output < w.outputs; ++output) {
        double sum = w.biases.empty() ? 0 : w.biases[output];
        each_tap(w, output, left + signed_of(x * w.stride_x), top + signed_of(y * w.stride_y),
                 [&](NSUInteger weight, NSInteger sx, NSInteger sy, NSUInteger channel) {
                   sum += double{w.weights[weight]} * from.get_or_zero(sx, sy, channel);
                 });
        to.set(x, y, output, static_cast<float>(w.neuron.value(sum, output)));
      }
}

}  // namespace

std::function<void()> first_taken(const std::shared_ptr<ConvolutionWeights>& weights,
                                  id<MPSCNNConvolutionDataSource> source) {
  if (lenient() || std::exchange(weights->taken, true)) return [] {};
  return [weights, now = ConvolutionWeights(source)] {
    weights->take(now.weights.data(), now.biases.empty() ? nullptr : now.biases.data());
  };
}

void reload(const std::shared_ptr<ConvolutionWeights>& weights,
            MPSCNNConvolutionWeightsAndBiasesState* state, id<MTLCommandBuffer> commands,
            const char* what) {
  read_state(state, commands, what);
  const NSUInteger weight_bytes = weights->weights.size() * 4;
  if ([state->_weights length] < state->_weightsOffset + weight_bytes)
    broken(what, "the state's buffer is too short for the weights");
  if (state->_biases != nil &&
      [state->_biases length] < state->_biasesOffset + weights->outputs * 4)
    broken(what, "the state's buffer is too short for the biases");
  if (state->_biases == nil && !weights->biases.empty())
    broken(what, "the state has no biases, and the convolution has");
  add_work(commands, what, [weights, kept = Kept<MPSCNNConvolutionWeightsAndBiasesState*>(state)] {
    const auto* state = kept.get();
    const float* biases =
        state->_biases == nil ? nullptr : floats(state->_biases) + state->_biasesOffset / 4;
    weights->take(floats(state->_weights) + state->_weightsOffset / 4, biases);
  });
}

MPSCNNConvolutionWeightsAndBiasesState* export_weights(
    const std::shared_ptr<ConvolutionWeights>& weights, id<MTLDevice> device,
    id<MTLCommandBuffer> commands) {
  auto* state = [[[MPSCNNConvolutionWeightsAndBiasesState alloc]
      initWithWeights:make_buffer(device, weights->weights.size() * 4)
               biases:make_buffer(device, weights->outputs * 4)] autorelease];
  using State = Kept<MPSCNNConvolutionWeightsAndBiasesState*>;
  add_work(commands, "the export of weights", [weights, kept = State(state)] {
    std::copy(weights->weights.begin(), weights->weights.end(), floats(kept.get()->_weights));
    std::copy(weights->biases.begin(), weights->biases.end(), floats(kept.get()->_biases));
  });
  return state;
}

MPSCNNConvolutionGradientState* make_gradient_state(Class state_class, const ConvolutionWeights& w,
                                                    id<MTLDevice> device,
                                                    id<MTLCommandBuffer> commands) {
  id<MTLBuffer> of_weights = make_buffer(device, w.weights.size() * 4);
  id<MTLBuffer> of_biases = make_buffer(device, w.outputs * 4);
  auto* state =
      (MPSCNNConvolutionGradientState*)make_state(state_class, commands, {of_weights, of_biases});
  state->_gradientForWeights = [of_weights retain];
  state->_gradientForBiases = [of_biases retain];
  return state;
}

}  // namespace apple

@implementation MPSCNNConvolutionDescriptor
MEMBERS(MPSCNNConvolutionDescriptor)
+ (instancetype)cnnConvolutionDescriptorWithKernelWidth:(NSUInteger)kernelWidth
                                           kernelHeight:(NSUInteger)kernelHeight
                                   inputFeatureChannels:(NSUInteger)inputFeatureChannels
                                  outputFeatureChannels:(NSUInteger)outputFeatureChannels {
  MPSCNNConvolutionDescriptor* made = [[[self alloc] init] autorelease];
  made->_kernelWidth = kernelWidth;
  made->_kernelHeight = kernelHeight;
  made->_inputFeatureChannels = inputFeatureChannels;
  made->_outputFeatureChannels = outputFeatureChannels;
  made->_strideInPixelsX = made->_strideInPixelsY = 1;
  made->_dilationRateX = made->_dilationRateY = 1;
  made->_groups = 1;
  return made;
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  MPSCNNConvolutionDescriptor* made =
      [[[self class] cnnConvolutionDescriptorWithKernelWidth:_kernelWidth
                                                kernelHeight:_kernelHeight
                                        inputFeatureChannels:_inputFeatureChannels
                                       outputFeatureChannels:_outputFeatureChannels] retain];
  [made setStrideInPixelsX:_strideInPixelsX];
  [made setStrideInPixelsY:_strideInPixelsY];
  [made setDilationRateX:_dilationRateX];
  [made setDilationRateY:_dilationRateY];
  [made setGroups:_groups];
  [made setFusedNeuronDescriptor:_fusedNeuronDescriptor];
  return made;
}
@end

@implementation MPSCNNDepthWiseConvolutionDescriptor
MEMBERS(MPSCNNDepthWiseConvolutionDescriptor)
- (NSUInteger)channelMultiplier {
  return [self outputFeatureChannels] / [self inputFeatureChannels];
}
@end

@implementation MPSCNNConvolutionGradientState
MEMBERS(MPSCNNConvolutionGradientState)
- (MPSCNNConvolutionWeightsLayout)gradientForWeightsLayout {
  return MPSCNNConvolutionWeightsLayoutOHWI;
}
- (NSUInteger)sourceWidth {
  return inside_MPSState->source.width;
}
- (NSUInteger)sourceHeight {
  return inside_MPSState->source.height;
}
@end

@implementation MPSCNNConvolutionWeightsAndBiasesState
MEMBERS(MPSCNNConvolutionWeightsAndBiasesState)
- (instancetype)initWithWeights:(id<MTLBuffer>)weights biases:(id<MTLBuffer>)biases {
  apple::expect(weights != nil, "a state of no weights");
  self = [super initWithResources:[NSArray array]];
  _weights = [weights retain];
  _biases = [biases retain];
  return self;
}
- (instancetype)initWithWeights:(id<MTLBuffer>)weights
                  weightsOffset:(NSUInteger)weightsOffset
                         biases:(id<MTLBuffer>)biases
                   biasesOffset:(NSUInteger)biasesOffset
       cnnConvolutionDescriptor:(MPSCNNConvolutionDescriptor*)descriptor {
  apple::expect(descriptor != nil, "a state of weights without the descriptor of its convolution");
  apple::expect(weightsOffset % 4 == 0 && biasesOffset % 4 == 0,
                "an offset of weights is no multiple of four");
  self = [self initWithWeights:weights biases:biases];
  _weightsOffset = weightsOffset;
  _biasesOffset = biasesOffset;
  return self;
}
- (instancetype)initWithDevice:(id<MTLDevice>)device
      cnnConvolutionDescriptor:(MPSCNNConvolutionDescriptor*)descriptor {
  const bool depthwise = [descriptor isKindOfClass:[MPSCNNDepthWiseConvolutionDescriptor class]];
  const NSUInteger inputs = depthwise ? 1 : descriptor->_inputFeatureChannels / descriptor->_groups;
  const NSUInteger outputs = descriptor->_outputFeatureChannels;
  return [self initWithWeights:apple::make_buffer(device, outputs * descriptor->_kernelHeight *
                                                              descriptor->_kernelWidth * inputs * 4)
                        biases:apple::make_buffer(device, outputs * 4)];
}
@end

@implementation MPSCNNConvolution
MEMBERS(MPSCNNConvolution)
- (instancetype)initWithDevice:(id<MTLDevice>)device
                       weights:(id<MPSCNNConvolutionDataSource>)weights {
  self = [super initWithDevice:device];
  _dataSource = [weights retain];
  [self reloadWeightsAndBiasesFromDataSource];
  const apple::ConvolutionWeights& w = *inside_MPSCNNConvolution->weights;
  _inputFeatureChannels = w.inputs;
  _outputFeatureChannels = w.outputs;
  _groups = w.groups;
  _subPixelScaleFactor = 1;
  _channelMultiplier = w.depthwise ? 1 : 0;
  _kernelWidth = w.width, _kernelHeight = w.height;
  _strideInPixelsX = w.stride_x, _strideInPixelsY = w.stride_y;
  _dilationRateX = w.dilation_x, _dilationRateY = w.dilation_y;
  return self;
}
- (void)reloadWeightsAndBiasesFromDataSource {
  inside_MPSCNNConvolution = std::make_shared<MPSCNNConvolutionInside>();
  inside_MPSCNNConvolution->weights = std::make_shared<apple::ConvolutionWeights>(_dataSource);
}
- (void)reloadWeightsAndBiasesWithCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                                          state:(MPSCNNConvolutionWeightsAndBiasesState*)state {
  apple::reload(inside_MPSCNNConvolution->weights, state, commandBuffer,
                "the reload of MPSCNNConvolution");
}
- (MPSCNNConvolutionWeightsAndBiasesState*)
    exportWeightsAndBiasesWithCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                  resultStateCanBeTemporary:(BOOL)resultStateCanBeTemporary {
  (void)resultStateCanBeTemporary;
  return apple::export_weights(inside_MPSCNNConvolution->weights, [self device], commandBuffer);
}
- (BOOL)isResultStateReusedAcrossBatch {
  return YES;
}
- (void)apple_checkSource:(apple::Extent)source result:(apple::Extent)result {
  if (source.channels != _inputFeatureChannels)
    apple::broken("MPSCNNConvolution", "the source has not the input channels of the weights");
  if (result.channels < _outputFeatureChannels)
    apple::broken("MPSCNNConvolution", "the result has fewer channels than the weights");
}
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  apple::expect(state == nil || [state isKindOfClass:[MPSCNNConvolutionGradientState class]],
                "the state of a convolution is one of another kernel");
  apple::expect(_edgeMode == MPSImageEdgeModeZero,
                "a convolution reads zeros outside of its source");
  return [weights = inside_MPSCNNConvolution->weights, offset = _offset](const apple::Picture& from,
                                                                         const apple::Picture& to) {
    apple::convolve(*weights, offset, from, to);
  };
}
- (MPSState*)apple_stateForCommands:(id<MTLCommandBuffer>)commands
                             source:(MPSImage*)source
                        destination:(MPSImage*)destination {
  (void)source, (void)destination;
  MPSCNNConvolutionGradientState* state =
      apple::make_gradient_state([MPSCNNConvolutionGradientState class],
                                 *inside_MPSCNNConvolution->weights, [self device], commands);
  state->_convolution = [self retain];
  return state;
}
@end

@implementation MPSCNNFullyConnected
MEMBERS(MPSCNNFullyConnected)
- (void)reloadWeightsAndBiasesFromDataSource {
  [super reloadWeightsAndBiasesFromDataSource];
  inside_MPSCNNConvolution->weights->whole_image = true;
}
- (void)apple_checkSource:(apple::Extent)source result:(apple::Extent)result {
  [super apple_checkSource:source result:result];
  if (source.width != [self kernelWidth] || source.height != [self kernelHeight] ||
      result.width != 1 || result.height != 1)
    apple::broken("MPSCNNFullyConnected",
                  "its kernel covers the source, and its result is one texel");
}
@end
