// Convolution and its two gradients by Metal Performance Shaders, over images. Weights are read
// from memory in each run, because the update has changed them there: an own shader brings them
// into Apple's order (O, kh, kw, I), and the kernel reloads them on the GPU.
#include "backends/metal/data_source.h"
#include "backends/metal/images.h"
#include "backends/metal/mps_entries.h"
#include "backends/metal/shader_kernel.h"

// What a kernel asks when it is made; the weights themselves come by reloads.
@interface TraingraphConvolutionSource : TraingraphDataSource <MPSCNNConvolutionDataSource> {
 @public
  MPSCNNConvolutionDescriptor* descriptor_;  // not retained: its kernel's C++ side holds it
  void* weights_;
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
  return nullptr;
}
- (id)copyWithZone:(NSZone*)zone {
  TraingraphConvolutionSource* copy = [[[self class] allocWithZone:zone] init];
  copy->descriptor_ = descriptor_;
  copy->weights_ = weights_;
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

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const Support support = supports_float(graph, node);
  if (!support.yes) return support;
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
class ConvolutionBase : public Kernel {
 public:
  ConvolutionBase(const ir::Graph& graph, const ir::Node& node, Device& device)
      : operands_(node),
        window_(std::get<ir::ConvolutionAttributes>(node.attributes).window),
        x_(device, graph.type(operands_.x).shape),
        y_(device, graph.type(operands_.y).shape),
        move_(device.shader("move")) {
    const Pool pool;
    const auto& attributes = std::get<ir::ConvolutionAttributes>(node.attributes);
    const Shape& x = graph.type(operands_.x).shape;
    const Shape& weights = graph.type(operands_.weights).shape;
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

    source_ = Ref<TraingraphConvolutionSource*>::own([[TraingraphConvolutionSource alloc] init]);
    source_.get()->descriptor_ = descriptor;
    source_.get()->weights_ = apples_.get();
    weights_ = Ref<MPSCNNConvolutionWeightsAndBiasesState*>::own(
        [[MPSCNNConvolutionWeightsAndBiasesState alloc]
            initWithWeights:place(device, apples_.get()).buffer
                     biases:nil]);
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
    const std::byte* buffers[] = {pointers[operands_.weights], apples_.get()};
    encoding.run(move_, buffers, 2, &to_apple_, sizeof to_apple_, elements_);
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

  Operands operands_;
  ir::Window window_;
  ImagesAt x_, y_;
  const Shader& move_;
  std::int64_t elements_ = 0;
  std::shared_ptr<std::byte> apples_;  // the weights in Apple's order
  shader::Moved to_apple_{}, from_apple_{};
  Ref<MPSCNNConvolutionDescriptor*> descriptor_;
  Ref<TraingraphConvolutionSource*> source_;
  Ref<MPSCNNConvolutionWeightsAndBiasesState*> weights_;
  Ref<MPSCNNConvolution*> forward_;
};

class Convolution final : public ConvolutionBase {
 public:
  using ConvolutionBase::ConvolutionBase;

  void encode(Pointers pointers, Encoding& encoding) override {
    reload(encoding, pointers, forward_.get());
    MPSImageBatch* x = x_.read(encoding, pointers[operands_.x], 1);
    MPSImageBatch* y = y_.make(encoding, 1);
    [forward_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                  sourceImages:x
                             destinationImages:y];
    y_.write(encoding, y, pointers[operands_.y]);
  }
};

class ConvolutionGradientData final : public ConvolutionBase {
 public:
  ConvolutionGradientData(const ir::Graph& graph, const ir::Node& node, Device& device)
      : ConvolutionBase(graph, node, device),
        gradient_(gradient_kernel(device, MPSCNNConvolutionGradientOptionGradientWithData)) {
    x_.make_blanks(device);
  }

  void encode(Pointers pointers, Encoding& encoding) override {
    reload(encoding, pointers, gradient_.get());
    MPSImageBatch* dy = y_.read(encoding, pointers[operands_.y], 1);
    MPSImageBatch* dx = x_.make(encoding, 1);
    [gradient_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                sourceGradients:dy
                                   sourceImages:x_.blanks()
                                 gradientStates:states(encoding, x_.blanks(), dy)
                           destinationGradients:dx];
    x_.write(encoding, dx, pointers[operands_.x]);
  }

 private:
  Ref<MPSCNNConvolutionGradient*> gradient_;
};

class ConvolutionGradientWeights final : public ConvolutionBase {
 public:
  ConvolutionGradientWeights(const ir::Graph& graph, const ir::Node& node, Device& device)
      : ConvolutionBase(graph, node, device),
        gradient_(
            gradient_kernel(device, MPSCNNConvolutionGradientOptionGradientWithWeightsAndBias)) {
    x_.make_blanks(device);
  }

  void encode(Pointers pointers, Encoding& encoding) override {
    MPSImageBatch* dy = y_.read(encoding, pointers[operands_.y], 1);
    MPSImageBatch* x = x_.read(encoding, pointers[operands_.x], 1);
    // One state for the batch, which sums over it. It is read once more, below.
    MPSCNNConvolutionGradientStateBatch* both = states(encoding, x, dy);
    MPSStateBatchIncrementReadCount(both, 1);
    [gradient_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                sourceGradients:dy
                                   sourceImages:x
                                 gradientStates:both
                           destinationGradients:x_.blanks()];
    MPSCNNConvolutionGradientState* state = [both objectAtIndex:0];
    run(encoding, move_,
        {{[state gradientForWeights], 0}, place(encoding.device(), pointers[operands_.weights])},
        &from_apple_, sizeof from_apple_, elements_);
    MPSStateBatchIncrementReadCount(both, -1);
  }

 private:
  Ref<MPSCNNConvolutionGradient*> gradient_;
};

}  // namespace

std::vector<KernelEntry> mps_convolution_entries() {
  return {{ir::Op::convolution, supports, make<Convolution>},
          {ir::Op::convolution_gradient_data, supports, make<ConvolutionGradientData>},
          {ir::Op::convolution_gradient_weights, supports, make<ConvolutionGradientWeights>}};
}

}  // namespace traingraph::metal
