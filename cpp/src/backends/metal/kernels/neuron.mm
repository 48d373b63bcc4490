// MPSCNNNeuron and MPSCNNNeuronGradient: activations of ops where another kernel of the run gives
// or wants images, over memory those are a shader, and what traingraph.mps encodes by name. The
// subclasses of one function are MPSCNNNeuron with a descriptor of that function: their own
// initializers are deprecated
// (https://developer.apple.com/documentation/metalperformanceshaders/mpscnnneuronrelu).
#include "backends/metal/kernels/entries.h"
#include "backends/metal/kernels/named_kernels.h"
#include "backends/metal/shaders/relu.h"
#include "backends/metal/shaders/shader_kernel.h"

namespace traingraph::metal {
namespace {

constexpr const char* kDescriptor = "neuron_descriptor";

struct Neuron {
  MPSCNNNeuronType type = MPSCNNNeuronTypeNone;
  float a = 0, b = 0, c = 0;
  std::vector<float> slopes = {};  // PReLU's, one per channel
};

// The one that a scalar function is. Soft sign is left to the shader: Apple says x / (1 + |x|),
// which is NaN at infinity.
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

// The one among a kernel's properties.
Neuron neuron_of(const ir::Node& node, const std::string& name) {
  const auto number = [&](const char* inner) { return float_of(node, name + "." + inner); };
  Neuron neuron{static_cast<MPSCNNNeuronType>(number("neuron_type")), number("a"), number("b"),
                number("c")};
  for (const auto& [key, slope] : std::get<ir::NamedKernelAttributes>(node.attributes).numbers) {
    if (key.starts_with(name + ".data.")) neuron.slopes.push_back(static_cast<float>(slope));
  }
  return neuron;
}

// Autoreleased.
MPSNNNeuronDescriptor* descriptor_of(const Neuron& neuron) {
  if (neuron.type != MPSCNNNeuronTypePReLU) {
    return [MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:neuron.type
                                                            a:neuron.a
                                                            b:neuron.b
                                                            c:neuron.c];
  }
  NSData* data = [NSData dataWithBytes:neuron.slopes.data()
                                length:neuron.slopes.size() * sizeof(float)];
  return [MPSNNNeuronDescriptor cnnNeuronPReLUDescriptorWithData:data noCopy:false];
}

// K is the forward or the gradient kernel over images.
template <class K>
Ref<K*> kernel_of(const Neuron& neuron, id<MTLDevice> gpu) {
  return Ref<K*>::own([[K alloc] initWithDevice:gpu neuronDescriptor:descriptor_of(neuron)]);
}

// --- ops -----------------------------------------------------------------------------------------

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const Support support = supports_float(graph, node);
  if (!support.yes) return support;
  if (neuron_of(node).type == MPSCNNNeuronTypeNone) {
    return Support::no("mps: a list that is no neuron");
  }
  const Shape& shape = graph.type(node.outputs[0]).shape;
  if (graph.type(node.inputs[0]).shape != shape) {
    return Support::no("mps: a neuron whose source is broadcast");
  }
  const std::string reason = no_images(shape);
  return reason.empty() ? Support{} : Support::no("mps: " + reason);
}

std::unique_ptr<Kernel> make_neuron(const ir::Graph& graph, const ir::Node& node, Device& device) {
  const Pool pool;
  const auto kernel = kernel_of<MPSCNNNeuron>(neuron_of(node), device.objects().device.get());
  return forward_images(graph, node, device, kernel,
                        elementwise_entries().front().make(graph, node, device));
}

// --- by name -------------------------------------------------------------------------------------

template <class K>
Ref<K*> named(const ir::Node& node, id<MTLDevice> gpu, const std::string&) {
  return kernel_of<K>(neuron_of(node, kDescriptor), gpu);
}

// What Apple prints as the derivative of ReLUN is not its derivative.
std::optional<std::string> relun(const ir::Node& node) {
  if (neuron_of(node, kDescriptor).type != MPSCNNNeuronTypeReLUN) return {};
  return form_of(node, " relun");
}

constexpr const char* kForwardNames[] = {
    "MPSCNNNeuron",         "MPSCNNNeuronReLU",      "MPSCNNNeuronSigmoid",
    "MPSCNNNeuronTanH",     "MPSCNNNeuronLinear",    "MPSCNNNeuronAbsolute",
    "MPSCNNNeuronSoftSign", "MPSCNNNeuronELU",       "MPSCNNNeuronHardSigmoid",
    "MPSCNNNeuronSoftPlus", "MPSCNNNeuronReLUN",     "MPSCNNNeuronPower",
    "MPSCNNNeuronPReLU",    "MPSCNNNeuronLogarithm", "MPSCNNNeuronExponential",
};

}  // namespace

MPSNNNeuronDescriptor* neuron_descriptor_of(const ir::Node& node, const std::string& name) {
  return descriptor_of(neuron_of(node, name));
}

std::vector<KernelEntry> mps_neuron_entries() {
  return {{ir::Op::elementwise, supports, make_neuron}};
}

std::vector<NamedKernel> named_neurons() {
  std::vector<NamedKernel> all{
      gradient_row<MPSCNNNeuronGradient, named<MPSCNNNeuron>, named<MPSCNNNeuronGradient>>(relun)};
  for (const char* name : kForwardNames) {
    all.push_back({name, refuses_one_source, make_forward<named<MPSCNNNeuron>>});
  }
  return all;
}

}  // namespace traingraph::metal
