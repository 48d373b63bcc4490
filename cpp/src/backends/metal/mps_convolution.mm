// Convolution and its two gradients by Metal Performance Shaders, over images.
#include "backends/metal/image_kernel.h"
#include "backends/metal/mps_entries.h"
#include "backends/metal/relu.h"
#include "backends/metal/weights_and_biases.h"
#include "ir/ending.h"

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

// Its descriptor, with the neuron that it ends with.
Ref<MPSCNNConvolutionDescriptor*> descriptor_of(const ir::Graph& graph, const ir::Node& node) {
  const auto& attributes = std::get<ir::ConvolutionAttributes>(node.attributes);
  const Operands operands(node);
  auto descriptor =
      convolution_descriptor(attributes.window, attributes.groups, graph.type(operands.x).shape[1],
                             graph.type(operands.weights).shape[0]);
  if (ir::ending_of(attributes.epilogue).value_or(ir::Ending{}).relu) {
    const Pool pool;
    [descriptor.get()
        setFusedNeuronDescriptor:[MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:kReLU a:0]];
  }
  return descriptor;
}

// Supported epilogues without biases have no inputs.
ir::ValueId biases_of(const ir::Node& node) {
  const bool is_forward = node.op == ir::Op::convolution;
  return is_forward && node.inputs.size() > 2 ? node.inputs[2] : ir::kNone;
}

// What the three kernels share: the weights, and the forward kernel, of which gradient states come.
class ConvolutionBase : public ImageKernel {
 public:
  ConvolutionBase(const ir::Graph& graph, const ir::Node& node, Device& device,
                  ImageOperands images)
      : ImageKernel(graph, device, std::move(images)),
        weights_value_(Operands(node).weights),
        biases_value_(biases_of(node)),
        window_(std::get<ir::ConvolutionAttributes>(node.attributes).window),
        weights_(device, graph.type(weights_value_).shape, biases_value_ != ir::kNone,
                 descriptor_of(graph, node)) {
    const Pool pool;
    forward_ = weights_.kernel<MPSCNNConvolution>(device);
    [forward_.get() setOffset:forward_offset(window_)];
    [forward_.get() setAccumulatorPrecisionOption:MPSNNConvolutionAccumulatorPrecisionOptionFloat];
  }

 protected:
  // The weights of this run, for a kernel of either class.
  template <class K>
  void reload(Encoding& encoding, Pointers pointers, K* kernel) {
    weights_.reload(encoding, kernel, pointers[weights_value_],
                    biases_value_ == ir::kNone ? nullptr : pointers[biases_value_]);
  }

  // The result has no padding policy of its own: all that a policy would set is set here.
  Ref<MPSCNNConvolutionGradient*> gradient_kernel(Device& device,
                                                  MPSCNNConvolutionGradientOption option) const {
    const Pool pool;
    auto kernel = weights_.kernel<MPSCNNConvolutionGradient>(device);
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
  ir::ValueId biases_value_;  // kNone: it has none
  ir::Window window_;
  WeightsAndBiases weights_;
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
    weights_.write_sums(encoding, state, pointers[weights_value_]);
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
