// MPSCNNConvolution, MPSCNNConvolutionTranspose and their gradients over images: convolutions of
// ops, and transposed ones that traingraph.mps encodes by name. Of the latter Apple documents the
// zeros between the source's pixels and the sum of the two offsets; which tap of the window lies
// there, and by which offsets the gradient kernel goes, it does not
// (https://developer.apple.com/documentation/metalperformanceshaders/mpscnnconvolutiontranspose).
// So neither is settled; both get the offsets that a convolution's kernels have.
#include <limits>
#include <type_traits>

#include "backends/metal/images/states.h"
#include "backends/metal/images/weights_and_biases.h"
#include "backends/metal/kernels/entries.h"
#include "backends/metal/kernels/named_kernels.h"
#include "backends/metal/shaders/relu.h"
#include "ir/epilogue.h"

namespace traingraph::metal {
namespace {

// What kernels of either direction are told beside their weights.
struct Convolution {
  Ref<MPSCNNConvolutionDescriptor*> descriptor;
  MPSOffset offset{};            // of the forward kernel
  MPSOffset secondary_offset{};  // of the gradient kernel
  // Of the gradient kernel, and of a transposed forward one.
  NSInteger kernel_offset_x = 0, kernel_offset_y = 0;
};

template <class K>
void set_kernel_offset(K* kernel, const Convolution& c) {
  [kernel setKernelOffsetX:c.kernel_offset_x];
  [kernel setKernelOffsetY:c.kernel_offset_y];
}

template <class K>
Ref<K*> forward_kernel(const WeightsAndBiases& weights, const Convolution& c, Device& device) {
  const Pool pool;
  auto kernel = weights.kernel<K>(device);
  [kernel.get() setOffset:c.offset];
  [kernel.get() setAccumulatorPrecisionOption:MPSNNConvolutionAccumulatorPrecisionOptionFloat];
  if constexpr (std::is_same_v<K, MPSCNNConvolutionTranspose>) set_kernel_offset(kernel.get(), c);
  return kernel;
}

// x, weights [, biases] → y
template <class K>
std::unique_ptr<Kernel> forward(const ir::Graph& graph, const ir::Node& node, Device& device,
                                const Convolution& c) {
  const ir::ValueId from = node.inputs[1];
  const ir::ValueId biases = node.inputs.size() > 2 ? node.inputs[2] : ir::kNone;
  const WeightsAndBiases weights(device, graph.type(from).shape, biases != ir::kNone, c.descriptor);
  return std::make_unique<ImageKernel>(
      graph, device, ImageOperands{.sources = {{node.inputs[0]}}, .results = {node.outputs[0]}},
      [weights, from, biases, kernel = forward_kernel<K>(weights, c, device)](
          const Images& images, Pointers pointers, Encoding& encoding) {
        weights.reload(encoding, kernel.get(), pointers[from],
                       biases == ir::kNone ? nullptr : pointers[biases]);
        [kernel.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                    sourceImages:images.source(0)
                               destinationImages:images.result(0)];
      });
}

// Values of a gradient kernel; kNone: not there.
struct ConvolutionValues {
  ir::ValueId dy;
  ir::ValueId x = ir::kNone;        // without it only its size matters, which is that of dx
  ir::ValueId weights = ir::kNone;  // read for dx alone
  ir::ValueId dx = ir::kNone, dweights = ir::kNone, dbiases = ir::kNone;
};

ImageOperands images_of(const ConvolutionValues& v) {
  ImageOperands images{.sources = {{v.dy}}, .results = {}};
  if (v.x != ir::kNone) images.sources.push_back({v.x});
  if (v.dx != ir::kNone) images.results.push_back(v.dx);
  return images;
}

MPSCNNConvolutionGradientOption option_of(const ConvolutionValues& v) {
  NSUInteger option = 0;
  if (v.dx != ir::kNone) option |= MPSCNNConvolutionGradientOptionGradientWithData;
  if (v.dweights != ir::kNone) {
    option |= MPSCNNConvolutionGradientOptionGradientWithWeightsAndBias;
  }
  return static_cast<MPSCNNConvolutionGradientOption>(option);
}

// A gradient kernel may take the weights of its data source when it is first encoded, behind a
// reload: so that is here, and each run's weights are reloaded after it.
template <class K, class G>
void encode_first(const ir::Graph& graph, const ConvolutionValues& v, Device& device, K* forward,
                  G* kernel) {
  Shape x_shape = graph.type(v.dx).shape, dy_shape = graph.type(v.dy).shape;
  x_shape[0] = dy_shape[0] = 1;
  const Ref<MPSImageBatch*> x = blank_images(device, x_shape), dx = blank_images(device, x_shape),
                            dy = blank_images(device, dy_shape);
  id<MTLCommandBuffer> commands = new_command_buffer(device);
  [kernel encodeBatchToCommandBuffer:commands
                     sourceGradients:dy.get()
                        sourceImages:x.get()
                      gradientStates:held([forward resultStateBatchForSourceImage:x.get()
                                                                     sourceStates:nil
                                                                 destinationImage:dy.get()],
                                          forward)
                destinationGradients:dx.get()];
  commit(device, commands);
}

// Biases matter to no gradient: where the sums of theirs are wanted, the kernels have zeros, so
// that a state has a place for them.
template <class K, class G>
std::unique_ptr<Kernel> gradient(const ir::Graph& graph, const ConvolutionValues& v,
                                 const Shape& shape, bool has_biases, Device& device,
                                 const Convolution& c) {
  const WeightsAndBiases weights(device, shape, has_biases, c.descriptor);
  const Ref<K*> forward = forward_kernel<K>(weights, c, device);
  const Pool pool;
  // Zeros, or a result that is not written.
  Ref<MPSImageBatch*> like_x;
  if (v.x == ir::kNone) like_x = blank_images(device, graph.type(v.dx).shape);
  if (v.dx == ir::kNone) like_x = blank_images(device, graph.type(v.x).shape);
  const Ref<G*> kernel = weights.template kernel<G>(device);
  [kernel.get() setGradientOption:option_of(v)];
  [kernel.get() setPrimaryOffset:MPSOffset{0, 0, 0}];
  [kernel.get() setSecondaryOffset:c.secondary_offset];
  set_kernel_offset(kernel.get(), c);
  if (v.dx != ir::kNone) encode_first(graph, v, device, forward.get(), kernel.get());
  return std::make_unique<ImageKernel>(
      graph, device, images_of(v),
      [v, weights, forward, kernel, like_x](const Images& images, Pointers pointers,
                                            Encoding& encoding) {
        const bool is_data = v.dx != ir::kNone;
        if (is_data) weights.reload(encoding, kernel.get(), pointers[v.weights]);
        MPSImageBatch* dy = images.source(0);
        MPSImageBatch* x = v.x == ir::kNone ? like_x.get() : images.source(1);
        // One state for the batch, which sums over it.
        MPSStateBatch* states =
            held([forward.get() temporaryResultStateBatchForCommandBuffer:command_buffer(encoding)
                                                              sourceImage:x
                                                             sourceStates:nil
                                                         destinationImage:dy],
                 forward.get());
        [kernel.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                 sourceGradients:dy
                                    sourceImages:x
                                  gradientStates:states
                            destinationGradients:is_data ? images.result(0) : like_x.get()];
        if (v.dweights != ir::kNone) {
          weights.write_sums(encoding, (MPSCNNConvolutionGradientState*)[states objectAtIndex:0],
                             pointers[v.dweights],
                             v.dbiases == ir::kNone ? nullptr : pointers[v.dbiases]);
        }
        end_reads(states);
      });
}

// --- ops -----------------------------------------------------------------------------------------

// Extent of the dilated kernel along an axis.
std::int64_t reach(const ir::Window& window, int axis) {
  return (window.kernel[axis] - 1) * window.dilation[axis] + 1;
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

// Biases, a number per channel of the result, and relu are the kernel's own. Supported epilogues
// without biases have no inputs.
bool takes(const ir::Graph& graph, const ir::Node& node, const ir::ScalarList& list,
           const std::vector<ir::ValueId>& extra) {
  const std::optional<ir::AddReluEpilogue> epilogue = ir::add_relu_epilogue_of(list);
  if (node.op != ir::Op::convolution || !epilogue || extra.size() != (epilogue->adds ? 1 : 0)) {
    return false;
  }
  const std::int64_t channels = graph.type(node.outputs[0]).shape[1];
  return !epilogue->adds || graph.type(extra[0]).shape == Shape{1, channels, 1, 1};
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const Support support = supports_float_operands(graph, node);
  if (!support.yes) return support;
  const auto& a = std::get<ir::ConvolutionAttributes>(node.attributes);
  if (ir::has_fused_work(node) &&
      !takes(graph, node, a.epilogue, {node.inputs.begin() + 2, node.inputs.end()})) {
    return Support::no("mps: an epilogue of more than biases and relu");
  }
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

// A window starts at offset - reach / 2 for Apple, and at -padding here. The result has no padding
// policy of its own: all that a policy would set is set here.
Convolution convolution_of(const ir::Graph& graph, const ir::Node& node) {
  const auto& a = std::get<ir::ConvolutionAttributes>(node.attributes);
  const Operands operands(node);
  const ir::Window& window = a.window;
  const auto before = [&window](int axis) { return window.padding_before[axis]; };
  const auto even = [&window](int axis) { return reach(window, axis) % 2 == 0 ? 1 : 0; };
  Convolution c;
  c.descriptor = convolution_descriptor(window, a.groups, graph.type(operands.x).shape[1],
                                        graph.type(operands.weights).shape[0]);
  c.offset = {reach(window, 1) / 2 - before(1), reach(window, 0) / 2 - before(0), 0};
  c.secondary_offset = {-before(1), -before(0), 0};
  c.kernel_offset_x = even(1) - c.offset.x;
  c.kernel_offset_y = even(0) - c.offset.y;
  if (ir::add_relu_epilogue_of(a.epilogue).value_or(ir::AddReluEpilogue{}).relu) {
    const Pool pool;
    [c.descriptor.get()
        setFusedNeuronDescriptor:[MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:kReLU a:0]];
  }
  return c;
}

std::unique_ptr<Kernel> make_convolution(const ir::Graph& graph, const ir::Node& node,
                                         Device& device) {
  return forward<MPSCNNConvolution>(graph, node, device, convolution_of(graph, node));
}

// dy → dx, or dy, x → dweights
std::unique_ptr<Kernel> make_convolution_gradient(const ir::Graph& graph, const ir::Node& node,
                                                  Device& device) {
  const Operands operands(node);
  const bool is_data = node.op == ir::Op::convolution_gradient_data;
  const ConvolutionValues values =
      is_data ? ConvolutionValues{.dy = operands.y, .weights = operands.weights, .dx = operands.x}
              : ConvolutionValues{.dy = operands.y, .x = operands.x, .dweights = operands.weights};
  return gradient<MPSCNNConvolution, MPSCNNConvolutionGradient>(
      graph, values, graph.type(operands.weights).shape, false, device,
      convolution_of(graph, node));
}

// --- by name -------------------------------------------------------------------------------------

// Where the source image is among the operands; the weights come next.
constexpr std::size_t kForwardSource = 0, kGradientSource = 1;

constexpr const char* kNeuron = "fused_neuron_descriptor";

// A size that the data source has said.
std::int64_t told(const ir::Node& node, const std::string& name) {
  return static_cast<std::int64_t>(number_of(node, "descriptor." + name));
}

bool has_neuron(const ir::Node& node) {
  return count_of(node, std::string(kNeuron) + ".neuron_type") != MPSCNNNeuronTypeNone;
}

Convolution transpose_of(const ir::Graph& graph, const ir::Node& node, std::size_t source) {
  const Shape& weights = graph.type(node.inputs[source + 1]).shape;
  ir::Window window;
  window.kernel[0] = weights[2];
  window.kernel[1] = weights[3];
  window.stride[0] = told(node, "stride_in_pixels_y");
  window.stride[1] = told(node, "stride_in_pixels_x");
  window.dilation[0] = told(node, "dilation_rate_y");
  window.dilation[1] = told(node, "dilation_rate_x");
  Convolution c;
  c.descriptor = convolution_descriptor(window, told(node, "groups"),
                                        graph.type(node.inputs[source]).shape[1], weights[0]);
  c.offset = c.secondary_offset =
      pixels_of(node, source == kForwardSource ? "offset" : "secondary_offset");
  c.kernel_offset_x = static_cast<NSInteger>(number_of(node, "kernel_offset_x"));
  c.kernel_offset_y = static_cast<NSInteger>(number_of(node, "kernel_offset_y"));
  if (has_neuron(node)) {
    const Pool pool;
    [c.descriptor.get() setFusedNeuronDescriptor:neuron_descriptor_of(node, kNeuron)];
  }
  return c;
}

std::unique_ptr<Kernel> make_transpose(const ir::Graph& graph, const ir::Node& node,
                                       Device& device) {
  return forward<MPSCNNConvolutionTranspose>(graph, node, device,
                                             transpose_of(graph, node, kForwardSource));
}

// dy, x, weights [, biases] → [dweights, dbiases,] [dx]
ConvolutionValues values_of(const ir::Node& node) {
  const auto gives = [&node](MPSCNNConvolutionGradientOption option) {
    return (count_of(node, "gradient_option") & option) != 0;
  };
  ConvolutionValues values{.dy = node.inputs[0], .x = node.inputs[1], .weights = node.inputs[2]};
  if (gives(MPSCNNConvolutionGradientOptionGradientWithData)) values.dx = node.outputs.back();
  if (gives(MPSCNNConvolutionGradientOptionGradientWithWeightsAndBias)) {
    values.dweights = node.outputs[0];
    values.dbiases = node.outputs[1];
  }
  return values;
}

std::unique_ptr<Kernel> make_transpose_gradient(const ir::Graph& graph, const ir::Node& node,
                                                Device& device) {
  return gradient<MPSCNNConvolutionTranspose, MPSCNNConvolutionTransposeGradient>(
      graph, values_of(node), graph.type(node.inputs[2]).shape, true, device,
      transpose_of(graph, node, kGradientSource));
}

// What is against these weights, of the image at `source` among the operands.
std::string refused_weights(const ir::Graph& graph, const ir::Node& node, std::size_t source) {
  const Shape& image = graph.type(node.inputs[source]).shape;
  const Shape& weights = graph.type(node.inputs[source + 1]).shape;
  for (std::size_t k = source + 1; k < node.inputs.size(); ++k) {
    if (graph.type(node.inputs[k]).data_type != DataType::kFloat32) {
      return "weights of another type than float32";
    }
  }
  if (element_count(weights) > std::numeric_limits<int>::max()) return "2^31 weights or more";
  const std::int64_t groups = told(node, "groups");
  if (image[1] / weights[1] != groups) return "a depthwise kernel, which Apple's class has none of";
  if (groups > 1 && (weights[1] % 4 != 0 || weights[0] / groups % 4 != 0)) {
    return "groups of channels that are no multiples of 4";
  }
  return {};
}

std::string refuses(const ir::Graph& graph, const ir::Node& node) {
  if (count_of(node, "edge_mode") != MPSImageEdgeModeZero) return "an edge that is not of zeros";
  const std::string reason = refused_images(graph, node, 1);
  return reason.empty() ? refused_weights(graph, node, kForwardSource) : reason;
}

std::string refuses_gradient(const ir::Graph& graph, const ir::Node& node) {
  if (count_of(node, "secondary_edge_mode") != MPSImageEdgeModeZero) {
    return "an edge that is not of zeros";
  }
  const MPSOffset primary = offset_of(node, "primary_offset");
  if (primary.x != 0 || primary.y != 0) return "an offset of the incoming gradient";
  if (has_neuron(node)) return "the gradient of a fused neuron";
  const std::string reason = refused_images(graph, node, 2, images_of(values_of(node)).results);
  return reason.empty() ? refused_weights(graph, node, kGradientSource) : reason;
}

}  // namespace

std::vector<KernelEntry> mps_convolution_entries() {
  return {{ir::Op::convolution, supports, make_convolution, nullptr, takes},
          {ir::Op::convolution_gradient_data, supports, make_convolution_gradient},
          {ir::Op::convolution_gradient_weights, supports, make_convolution_gradient}};
}

std::vector<NamedKernel> named_convolution_transpose() {
  constexpr std::size_t kBiases = 1;
  return {
      {"MPSCNNConvolutionTranspose", refuses, make_transpose, unsettled, kBiases},
      {"MPSCNNConvolutionTransposeGradient", refuses_gradient, make_transpose_gradient, unsettled,
       kBiases},
  };
}

}  // namespace traingraph::metal
