// Activations by Metal Performance Shaders: over memory, as a matrix, and over images where another
// kernel of the run gives or wants such.
#include "backends/metal/image_kernel.h"
#include "backends/metal/mps_entries.h"
#include "backends/metal/relu.h"
#include "backends/metal/shader_kernel.h"

namespace traingraph::metal {
namespace {

// The neuron that a scalar function is, with its parameters. Soft sign is left to the shader: Apple
// says x / (1 + |x|), which is NaN at infinity.
struct Neuron {
  MPSCNNNeuronType type = MPSCNNNeuronTypeNone;
  float a = 0, b = 0;
};

Neuron neuron_of(const ir::Node& node) {
  const auto& list = std::get<ir::ElementwiseAttributes>(node.attributes).list;
  if (list.inputs != 1 || list.code.size() != 1 || list.results != std::vector<int>{1}) return {};
  const ir::Instruction& only = list.code[0];
  const auto p = static_cast<float>(only.p), q = static_cast<float>(only.q);
  switch (only.function) {
    case ir::Scalar::relu:
      return {kReLU, 0, 0};
    case ir::Scalar::leaky_relu:
      return {p == 0 ? kReLU : MPSCNNNeuronTypeReLU, p, 0};
    case ir::Scalar::affine:
      return {MPSCNNNeuronTypeLinear, p, q};
    case ir::Scalar::sigmoid:
      return {MPSCNNNeuronTypeSigmoid, 0, 0};
    case ir::Scalar::hard_sigmoid:
      return {MPSCNNNeuronTypeHardSigmoid, p, q};
    case ir::Scalar::tanh:
      return {MPSCNNNeuronTypeTanH, p, q};
    case ir::Scalar::absolute:
      return {MPSCNNNeuronTypeAbsolute, 0, 0};
    case ir::Scalar::soft_plus:
      return {MPSCNNNeuronTypeSoftPlus, p, q};
    case ir::Scalar::elu:
      return {MPSCNNNeuronTypeELU, p, 0};
    default:
      return {};
  }
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const Support support = supports_float(graph, node);
  if (!support.yes) return support;
  if (neuron_of(node).type == MPSCNNNeuronTypeNone) {
    return Support::no("mps: a list that is no neuron");
  }
  if (graph.type(node.inputs[0]).elements() != graph.type(node.outputs[0]).elements()) {
    return Support::no("mps: a neuron whose source is stretched");
  }
  return {};
}

// A row per row of the batch.
MatrixAt flat(const ir::Type& type) {
  const std::int64_t rows = type.shape.empty() ? 1 : type.shape[0];
  return {rows, rows == 0 ? 0 : type.elements() / rows};
}

// Apple's kernel must not write over its source. Where the plan lets it, an own shader does.
class MatrixNeuron final : public Kernel {
 public:
  MatrixNeuron(const ir::Graph& graph, const ir::Node& node, Device& device)
      : in_place_(elementwise_entries().front().make(graph, node, device)),
        x_value_(node.inputs[0]),
        y_value_(node.outputs[0]),
        x_(flat(graph.type(y_value_))),
        y_(x_),
        kernel_(Ref<MPSMatrixNeuron*>::own(
            [[MPSMatrixNeuron alloc] initWithDevice:device.objects().device.get()])) {
    const Neuron neuron = neuron_of(node);
    [kernel_.get() setNeuronType:neuron.type parameterA:neuron.a parameterB:neuron.b parameterC:0];
  }

  void encode(Pointers pointers, Encoding& encoding) override {
    if (pointers[x_value_] == pointers[y_value_]) return in_place_->encode(pointers, encoding);
    [kernel_.get() encodeToCommandBuffer:command_buffer(encoding)
                             inputMatrix:x_.at(encoding, pointers[x_value_])
                              biasVector:nil
                            resultMatrix:y_.at(encoding, pointers[y_value_])];
  }

 private:
  std::unique_ptr<Kernel> in_place_;
  ir::ValueId x_value_, y_value_;
  MatrixAt x_, y_;
  Ref<MPSMatrixNeuron*> kernel_;
};

// Over images where the run's plan says so.
class ImageNeuron final : public MemoryOrImages {
 public:
  ImageNeuron(const ir::Graph& graph, const ir::Node& node, Device& device)
      : MemoryOrImages(graph, node, device, make<MatrixNeuron>(graph, node, device)) {
    const Pool pool;
    const Neuron neuron = neuron_of(node);
    MPSNNNeuronDescriptor* descriptor =
        [MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:neuron.type a:neuron.a b:neuron.b c:0];
    kernel_ =
        Ref<MPSCNNNeuron*>::own([[MPSCNNNeuron alloc] initWithDevice:device.objects().device.get()
                                                    neuronDescriptor:descriptor]);
  }

 private:
  void encode_images(const Images& images, Pointers, Encoding& encoding) override {
    [kernel_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                 sourceImages:images.source(0)
                            destinationImages:images.result(0)];
  }

  Ref<MPSCNNNeuron*> kernel_;
};

std::unique_ptr<Kernel> make_neuron(const ir::Graph& graph, const ir::Node& node, Device& device) {
  const Shape& from = graph.type(node.inputs[0]).shape;
  const Shape& to = graph.type(node.outputs[0]).shape;
  if (from == to && no_images(to).empty()) return make<ImageNeuron>(graph, node, device);
  return make<MatrixNeuron>(graph, node, device);
}

}  // namespace

std::vector<KernelEntry> mps_neuron_entries() {
  return {{ir::Op::elementwise, supports, make_neuron}};
}

}  // namespace traingraph::metal
