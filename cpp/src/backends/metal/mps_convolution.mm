// Convolution and its two gradients by Metal Performance Shaders, over images. Weights are read
// from memory in each run, because the update has changed them there: an own shader brings them
// into Apple's order (O, kh, kw, I), and the kernel reloads them on the GPU.
#include "backends/metal/data_source.h"
#include "backends/metal/image_kernel.h"
#include "backends/metal/mps_entries.h"
#include "backends/metal/shader_kernel.h"
#include "ir/ending.h"

// What a kernel asks when it is made; the weights themselves come by reloads.
@interface TraingraphConvolutionSource : TraingraphDataSource <MPSCNNConvolutionDataSource> {
 @public
  MPSCNNConvolutionDescriptor* descriptor_;  // not retained: its kernel's C++ side holds it
  void* weights_;
  float* biases_;  // null: the kernel has none
}
@end

@implementation TraingraphConvolutionSource
- (MPSDataType)dataType {
  return MPSDataTypeFloat32;
}
- (MPSDataType)kernelWeightsDataType {
  return MPSDataTypeFloat32;
}
- (MPSCNNConvolutionDescriptor*)descriptor {
  return descriptor_;
}
- (void*)weights {
  return weights_;
}
- (float*)biasTerms {
  return biases_;
}
- (id)copyWithZone:(NSZone*)zone {
  TraingraphConvolutionSource* copy = [[[self class] allocWithZone:zone] init];
  copy->descriptor_ = descriptor_;
  copy->weights_ = weights_;
  copy->biases_ = biases_;
  return copy;
}
@end

namespace traingraph::metal {
namespace {

// Extent of the dilated kernel along an axis.
std::int64_t reach(const ir::Window& window, int axis) {
  return (window.kernel[axis] - 1) * window.dilation[axis] + 1;
}

// A window starts at offset - reach / 2 for Apple, and at -padding here.
MPSOffset forward_offset(const ir::Window& window) {
  return {reach(window, 1) / 2 - window.padding_before[1],
          reach(window, 0) / 2 - window.padding_before[0], 0};
}

// x, weights and y of one of the three ops.
struct Operands {
  ir::ValueId x, weights, y;

  explicit Operands(const ir::Node& node) {
    const auto& in = node.inputs;
    const ir::ValueId out = node.outputs[0];
    if (node.op == ir::Op::convolution) {
      x = in[0], weights = in[1], y = out;
    } else if (node.op == ir::Op::convolution_gradient_data) {
      y = in[0], weights = in[1], x = out;
    } else {
      y = in[0], x = in[1], weights = out;
    }
  }
};

// Biases, a number per channel of the result, and relu are the kernel's own.
bool takes(const ir::Graph& graph, const ir::Node& node, const ir::ScalarList& list,
           const std::vector<ir::ValueId>& extra) {
  const std::optional<ir::Ending> ending = ir::ending_of(list);
  if (node.op != ir::Op::convolution || !ending || extra.size() != (ending->adds ? 1 : 0)) {
    return false;
  }
  const std::int64_t channels = graph.type(node.outputs[0]).shape[1];
  return !ending->adds || graph.type(extra[0]).shape == Shape{1, channels, 1, 1};
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const Support support = supports_float_operands(graph, node);
  if (!support.yes) return support;
  if (ir::has_ending(node)) {
    const auto& list = std::get<ir::ConvolutionAttributes>(node.attributes).epilogue;
    if (!takes(graph, node, list, {node.inputs.begin() + 2, node.inputs.end()})) {
      return Support::no("mps: an epilogue of more than biases and relu");
    }
  }
  const auto& a = std::get<ir::ConvolutionAttributes>(node.attributes);
  const Operands operands(node);
  const Shape& x = graph.type(operands.x).shape;
  const Shape& y = graph.type(operands.y).shape;
  for (const Shape& shape : {x, y}) {
    const std::string reason = no_images(shape);
    if (!reason.empty()) return Support::no("mps: " + reason);
  }
  if (a.groups > 1 && ((x[1] / a.groups) % 4 != 0 || (y[1] / a.groups) % 4 != 0)) {
    return Support::no("mps: groups of channels that are no multiples of 4");
  }
  return {};
}

// What the three kernels share: the weights in Apple's order, and the forward kernel, of which
// gradient states come.
class ConvolutionBase : public ImageKernel {
 public:
  ConvolutionBase(const ir::Graph& graph, const ir::Node& node, Device& device,
                  ImageOperands images)
      : ImageKernel(graph, device, std::move(images)),
        weights_value_(Operands(node).weights),
        window_(std::get<ir::ConvolutionAttributes>(node.attributes).window),
        move_(device.shader("move")),
        copy_(device.shader("copy_runs")) {
    const Pool pool;
    const auto& attributes = std::get<ir::ConvolutionAttributes>(node.attributes);
    const Shape& x = graph.type(Operands(node).x).shape;
    const Shape& weights = graph.type(weights_value_).shape;
    elements_ = element_count(weights);
    apples_ = device.keep(static_cast<std::size_t>(elements_) * sizeof(float));
    // (O, I, kh, kw) here, (O, kh, kw, I) there.
    to_apple_.extents = extents_of(weights);
    to_apple_.source = stretched_strides(weights, weights);
    const Shape order = {weights[0], weights[2], weights[3], weights[1]};
    const shader::Strides dense = stretched_strides(order, order);
    for (std::size_t k = 0; k < 4; ++k) {
      constexpr std::size_t kPlace[] = {0, 3, 1, 2};
      // An axis of extent 1 has no stride in stretched_strides, and needs none.
      to_apple_.target.step[k] = dense.step[kPlace[k]];
    }
    from_apple_ = {to_apple_.extents, to_apple_.target, to_apple_.source};

    descriptor_ = Ref<MPSCNNConvolutionDescriptor*>::keep([MPSCNNConvolutionDescriptor
        cnnConvolutionDescriptorWithKernelWidth:static_cast<NSUInteger>(window_.kernel[1])
                                   kernelHeight:static_cast<NSUInteger>(window_.kernel[0])
                           inputFeatureChannels:static_cast<NSUInteger>(x[1])
                          outputFeatureChannels:static_cast<NSUInteger>(weights[0])]);
    MPSCNNConvolutionDescriptor* descriptor = descriptor_.get();
    [descriptor setStrideInPixelsX:static_cast<NSUInteger>(window_.stride[1])];
    [descriptor setStrideInPixelsY:static_cast<NSUInteger>(window_.stride[0])];
    [descriptor setDilationRateX:static_cast<NSUInteger>(window_.dilation[1])];
    [descriptor setDilationRateY:static_cast<NSUInteger>(window_.dilation[0])];
    [descriptor setGroups:static_cast<NSUInteger>(attributes.groups)];
    const ir::Ending ending = ir::ending_of(attributes.epilogue).value_or(ir::Ending{});
    if (ending.relu) {
      [descriptor setFusedNeuronDescriptor:[MPSNNNeuronDescriptor
                                               cnnNeuronDescriptorWithType:MPSCNNNeuronTypeReLU
                                                                         a:0]];
    }
    if (ending.adds) {
      biases_value_ = node.inputs[2];
      channels_ = weights[0];
      biases_ = device.keep(static_cast<std::size_t>(channels_) * sizeof(float));
    }

    source_ = Ref<TraingraphConvolutionSource*>::own([[TraingraphConvolutionSource alloc] init]);
    source_.get()->descriptor_ = descriptor;
    source_.get()->weights_ = apples_.get();
    source_.get()->biases_ = reinterpret_cast<float*>(biases_.get());
    weights_ = Ref<MPSCNNConvolutionWeightsAndBiasesState*>::own(
        [[MPSCNNConvolutionWeightsAndBiasesState alloc]
            initWithWeights:place(device, apples_.get()).buffer
                     biases:biases_ ? place(device, biases_.get()).buffer : nil]);
    forward_ = Ref<MPSCNNConvolution*>::own([[MPSCNNConvolution alloc]
        initWithDevice:device.objects().device.get()
               weights:source_.get()]);
    [forward_.get() setOffset:forward_offset(window_)];
    [forward_.get() setAccumulatorPrecisionOption:MPSNNConvolutionAccumulatorPrecisionOptionFloat];
  }

 protected:
  // The weights of this run, for a kernel of either class.
  template <class K>
  void reload(Encoding& encoding, Pointers pointers, K* kernel) {
    const std::byte* buffers[] = {pointers[weights_value_], apples_.get()};
    encoding.run(move_, buffers, 2, &to_apple_, sizeof to_apple_, elements_);
    if (biases_) {
      copy_row(encoding, copy_, pointers[biases_value_], biases_.get(), channels_);
    }
    [kernel reloadWeightsAndBiasesWithCommandBuffer:command_buffer(encoding) state:weights_.get()];
  }

  // The result has no padding policy of its own: all that a policy would set is set here.
  Ref<MPSCNNConvolutionGradient*> gradient_kernel(Device& device,
                                                  MPSCNNConvolutionGradientOption option) const {
    const Pool pool;
    auto kernel = Ref<MPSCNNConvolutionGradient*>::own([[MPSCNNConvolutionGradient alloc]
        initWithDevice:device.objects().device.get()
               weights:source_.get()]);
    const MPSOffset offset = forward_offset(window_);
    const auto even = [&](int axis) { return reach(window_, axis) % 2 == 0 ? 1 : 0; };
    [kernel.get() setGradientOption:option];
    [kernel.get() setPrimaryOffset:MPSOffset{0, 0, 0}];
    [kernel.get() setKernelOffsetX:even(1) - offset.x];
    [kernel.get() setKernelOffsetY:even(0) - offset.y];
    [kernel.get()
        setSecondaryOffset:MPSOffset{-window_.padding_before[1], -window_.padding_before[0], 0}];
    return kernel;
  }

  // States of a forward pass from these images to those.
  MPSCNNConvolutionGradientStateBatch* states(Encoding& encoding, MPSImageBatch* from,
                                              MPSImageBatch* to) const {
    return [forward_.get() temporaryResultStateBatchForCommandBuffer:command_buffer(encoding)
                                                         sourceImage:from
                                                        sourceStates:nil
                                                    destinationImage:to];
  }

  ir::ValueId weights_value_;
  ir::Window window_;
  const Shader& move_;
  const Shader& copy_;
  ir::ValueId biases_value_ = ir::kNone;
  std::int64_t elements_ = 0, channels_ = 0;
  std::shared_ptr<std::byte> apples_;  // the weights in Apple's order
  std::shared_ptr<std::byte> biases_;  // null: none
  shader::Moved to_apple_{}, from_apple_{};
  Ref<MPSCNNConvolutionDescriptor*> descriptor_;
  Ref<TraingraphConvolutionSource*> source_;
  Ref<MPSCNNConvolutionWeightsAndBiasesState*> weights_;
  Ref<MPSCNNConvolution*> forward_;
};

class Convolution final : public ConvolutionBase {
 public:
  Convolution(const ir::Graph& graph, const ir::Node& node, Device& device)
      : ConvolutionBase(graph, node, device,
                        {.sources = {{node.inputs[0]}}, .results = {node.outputs[0]}}) {}

 private:
  void encode_images(const Images& images, Pointers pointers, Encoding& encoding) override {
    reload(encoding, pointers, forward_.get());
    [forward_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                  sourceImages:images.source(0)
                             destinationImages:images.result(0)];
  }
};

// dy → dx: of x only the size matters.
class ConvolutionGradientData final : public ConvolutionBase {
 public:
  ConvolutionGradientData(const ir::Graph& graph, const ir::Node& node, Device& device)
      : ConvolutionBase(graph, node, device,
                        {.sources = {{node.inputs[0]}}, .results = {node.outputs[0]}}),
        gradient_(gradient_kernel(device, MPSCNNConvolutionGradientOptionGradientWithData)),
        like_x_(blank_images(device, graph.type(node.outputs[0]).shape)) {}

 private:
  void encode_images(const Images& images, Pointers pointers, Encoding& encoding) override {
    reload(encoding, pointers, gradient_.get());
    MPSImageBatch* dy = images.source(0);
    [gradient_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                sourceGradients:dy
                                   sourceImages:like_x_.get()
                                 gradientStates:states(encoding, like_x_.get(), dy)
                           destinationGradients:images.result(0)];
  }

  Ref<MPSCNNConvolutionGradient*> gradient_;
  Ref<MPSImageBatch*> like_x_;
};

// dy, x → dweights: the gradient of x is not written.
class ConvolutionGradientWeights final : public ConvolutionBase {
 public:
  ConvolutionGradientWeights(const ir::Graph& graph, const ir::Node& node, Device& device)
      : ConvolutionBase(graph, node, device,
                        {.sources = {{node.inputs[0]}, {node.inputs[1]}}, .results = {}}),
        gradient_(
            gradient_kernel(device, MPSCNNConvolutionGradientOptionGradientWithWeightsAndBias)),
        like_x_(blank_images(device, graph.type(node.inputs[1]).shape)) {}

 private:
  void encode_images(const Images& images, Pointers pointers, Encoding& encoding) override {
    MPSImageBatch* dy = images.source(0);
    MPSImageBatch* x = images.source(1);
    // One state for the batch, which sums over it. It is read once more, below.
    MPSCNNConvolutionGradientStateBatch* both = states(encoding, x, dy);
    MPSStateBatchIncrementReadCount(both, 1);
    [gradient_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                sourceGradients:dy
                                   sourceImages:x
                                 gradientStates:both
                           destinationGradients:like_x_.get()];
    MPSCNNConvolutionGradientState* state = [both objectAtIndex:0];
    run(encoding, move_,
        {{[state gradientForWeights], 0}, place(encoding.device(), pointers[weights_value_])},
        &from_apple_, sizeof from_apple_, elements_);
    MPSStateBatchIncrementReadCount(both, -1);
  }

  Ref<MPSCNNConvolutionGradient*> gradient_;
  Ref<MPSImageBatch*> like_x_;
};

}  // namespace

std::vector<KernelEntry> mps_convolution_entries() {
  return {{ir::Op::convolution, supports, make<Convolution>, nullptr, takes},
          {ir::Op::convolution_gradient_data, supports, make<ConvolutionGradientData>},
          {ir::Op::convolution_gradient_weights, supports, make<ConvolutionGradientWeights>}};
}

}  // namespace traingraph::metal
