// MPSCNNConvolutionTranspose and its gradient. The zeros that it puts between the source's pixels
// and the sum of its two offsets are documented; which tap of the window lies there, and by which
// offsets the gradient kernel goes, is not
// (https://developer.apple.com/documentation/metalperformanceshaders/mpscnnconvolutiontranspose).
// So both are on trial, with the offsets that a convolution's kernels have.
#include <limits>

#include "backends/metal/mps_entries.h"
#include "backends/metal/named_kernels.h"
#include "backends/metal/weights_and_biases.h"

namespace traingraph::metal {
namespace {

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

Ref<MPSCNNConvolutionDescriptor*> descriptor_of(const ir::Node& node, const Shape& source,
                                                const Shape& weights) {
  ir::Window window;
  window.kernel[0] = weights[2];
  window.kernel[1] = weights[3];
  window.stride[0] = told(node, "stride_in_pixels_y");
  window.stride[1] = told(node, "stride_in_pixels_x");
  window.dilation[0] = told(node, "dilation_rate_y");
  window.dilation[1] = told(node, "dilation_rate_x");
  auto descriptor = convolution_descriptor(window, told(node, "groups"), source[1], weights[0]);
  if (has_neuron(node)) {
    const Pool pool;
    [descriptor.get() setFusedNeuronDescriptor:neuron_descriptor_of(node, kNeuron)];
  }
  return descriptor;
}

template <class K>
void set_kernel_offset(K* kernel, const ir::Node& node) {
  [kernel setKernelOffsetX:static_cast<NSInteger>(number_of(node, "kernel_offset_x"))];
  [kernel setKernelOffsetY:static_cast<NSInteger>(number_of(node, "kernel_offset_y"))];
}

// What both share: the weights, and the forward kernel, of which gradient states come.
class TransposeBase : public ImageKernel {
 protected:
  TransposeBase(const ir::Graph& graph, const ir::Node& node, Device& device, ImageOperands images,
                std::size_t source, bool has_biases, const char* offset)
      : ImageKernel(graph, device, std::move(images)),
        weights_value_(node.inputs[source + 1]),
        weights_(device, graph.type(weights_value_).shape, has_biases,
                 descriptor_of(node, graph.type(node.inputs[source]).shape,
                               graph.type(weights_value_).shape)) {
    const Pool pool;
    forward_ = weights_.kernel<MPSCNNConvolutionTranspose>(device);
    [forward_.get() setOffset:pixels_of(node, offset)];
    set_kernel_offset(forward_.get(), node);
    [forward_.get() setAccumulatorPrecisionOption:MPSNNConvolutionAccumulatorPrecisionOptionFloat];
  }

  ir::ValueId weights_value_;
  WeightsAndBiases weights_;
  Ref<MPSCNNConvolutionTranspose*> forward_;
};

// x, weights [, biases] → y
class Transpose final : public TransposeBase {
 public:
  Transpose(const ir::Graph& graph, const ir::Node& node, Device& device)
      : TransposeBase(graph, node, device,
                      {.sources = {{node.inputs[0]}}, .results = {node.outputs[0]}}, kForwardSource,
                      node.inputs.size() > 2, "offset"),
        biases_value_(node.inputs.size() > 2 ? node.inputs[2] : ir::kNone) {}

 private:
  void encode_images(const Images& images, Pointers pointers, Encoding& encoding) override {
    weights_.reload(encoding, forward_.get(), pointers[weights_value_],
                    biases_value_ == ir::kNone ? nullptr : pointers[biases_value_]);
    [forward_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                  sourceImages:images.source(0)
                             destinationImages:images.result(0)];
  }

  ir::ValueId biases_value_;
};

bool gives(const ir::Node& node, MPSCNNConvolutionGradientOption option) {
  return (count_of(node, "gradient_option") & option) != 0;
}
bool gives_data(const ir::Node& node) {
  return gives(node, MPSCNNConvolutionGradientOptionGradientWithData);
}
bool gives_weights(const ir::Node& node) {
  return gives(node, MPSCNNConvolutionGradientOptionGradientWithWeightsAndBias);
}
// The images among the results.
std::vector<ir::ValueId> data_of(const ir::Node& node) {
  return gives_data(node) ? std::vector<ir::ValueId>{node.outputs.back()}
                          : std::vector<ir::ValueId>{};
}

// dy, x, weights [, biases] → [dweights, dbiases,] [dx]. Biases matter to no gradient, so the
// kernels have zeros, and a state with a place for their sums, whether there are any or not.
class TransposeGradient final : public TransposeBase {
 public:
  TransposeGradient(const ir::Graph& graph, const ir::Node& node, Device& device)
      : TransposeBase(graph, node, device,
                      {.sources = {{node.inputs[0]}, {node.inputs[kGradientSource]}},
                       .results = data_of(node)},
                      kGradientSource, true, "secondary_offset"),
        gradient_(weights_.kernel<MPSCNNConvolutionTransposeGradient>(device)),
        of_data_(gives_data(node)) {
    const Pool pool;
    if (gives_weights(node)) {
      of_weights_ = node.outputs[0];
      of_biases_ = node.outputs[1];
    }
    if (!of_data_) unwritten_ = blank_images(device, graph.type(node.inputs[1]).shape);
    [gradient_.get() setGradientOption:count_of(node, "gradient_option")];
    [gradient_.get() setSecondaryOffset:pixels_of(node, "secondary_offset")];
    set_kernel_offset(gradient_.get(), node);
  }

 private:
  void encode_images(const Images& images, Pointers pointers, Encoding& encoding) override {
    if (of_data_) weights_.reload(encoding, gradient_.get(), pointers[weights_value_]);
    MPSImageBatch *dy = images.source(0), *x = images.source(1);
    // One state for the batch, which sums over it. It may be read once more, below.
    MPSStateBatch* states =
        [forward_.get() temporaryResultStateBatchForCommandBuffer:command_buffer(encoding)
                                                      sourceImage:x
                                                     sourceStates:nil
                                                 destinationImage:dy];
    const bool has_sums = of_weights_ != ir::kNone;
    if (has_sums) MPSStateBatchIncrementReadCount(states, 1);
    [gradient_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                sourceGradients:dy
                                   sourceImages:x
                                 gradientStates:states
                           destinationGradients:of_data_ ? images.result(0) : unwritten_.get()];
    if (!has_sums) return;
    weights_.write_sums(encoding, (MPSCNNConvolutionGradientState*)[states objectAtIndex:0],
                        pointers[of_weights_], pointers[of_biases_]);
    MPSStateBatchIncrementReadCount(states, -1);
  }

  Ref<MPSCNNConvolutionTransposeGradient*> gradient_;
  bool of_data_;
  ir::ValueId of_weights_ = ir::kNone, of_biases_ = ir::kNone;
  Ref<MPSImageBatch*> unwritten_;
};

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
  const std::string reason = refused_images(graph, node, 2, data_of(node));
  return reason.empty() ? refused_weights(graph, node, kGradientSource) : reason;
}

}  // namespace

std::vector<NamedKernel> named_convolution_transpose() {
  constexpr std::size_t kBiases = 1;
  return {
      {"MPSCNNConvolutionTranspose", refuses, make<Transpose>, always, kBiases},
      {"MPSCNNConvolutionTransposeGradient", refuses_gradient, make<TransposeGradient>, always,
       kBiases},
  };
}

}  // namespace traingraph::metal
