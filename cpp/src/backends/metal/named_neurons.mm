// MPSCNNNeuron and its gradient. The subclasses of one function are MPSCNNNeuron with a descriptor
// of that function: their own initializers are deprecated
// (https://developer.apple.com/documentation/metalperformanceshaders/mpscnnneuronrelu).
#include "backends/metal/named_kernels.h"

namespace traingraph::metal {
namespace {

constexpr const char* kDescriptor = "neuron_descriptor";

Ref<MPSCNNKernel*> forward(const ir::Node& node, id<MTLDevice> gpu, const std::string&) {
  return Ref<MPSCNNKernel*>::own([[MPSCNNNeuron alloc]
        initWithDevice:gpu
      neuronDescriptor:neuron_descriptor_of(node, kDescriptor)]);
}

Ref<MPSCNNGradientKernel*> gradient(const ir::Node& node, id<MTLDevice> gpu) {
  return Ref<MPSCNNGradientKernel*>::own([[MPSCNNNeuronGradient alloc]
        initWithDevice:gpu
      neuronDescriptor:neuron_descriptor_of(node, kDescriptor)]);
}

// What Apple prints as the derivative of ReLUN is not its derivative.
bool is_relun(const ir::Node& node) {
  return count_of(node, "neuron_descriptor.neuron_type") == MPSCNNNeuronTypeReLUN;
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
  const auto number = [&](const char* inner) {
    return static_cast<float>(number_of(node, name + "." + inner));
  };
  const auto type = static_cast<MPSCNNNeuronType>(number("neuron_type"));
  if (type != MPSCNNNeuronTypePReLU) {
    return [MPSNNNeuronDescriptor cnnNeuronDescriptorWithType:type
                                                            a:number("a")
                                                            b:number("b")
                                                            c:number("c")];
  }
  std::vector<float> slopes;
  for (const auto& [key, slope] : std::get<ir::NamedKernelAttributes>(node.attributes).numbers) {
    if (key.starts_with(name + ".data.")) slopes.push_back(static_cast<float>(slope));
  }
  NSData* data = [NSData dataWithBytes:slopes.data() length:slopes.size() * sizeof(float)];
  return [MPSNNNeuronDescriptor cnnNeuronPReLUDescriptorWithData:data noCopy:false];
}

std::vector<NamedKernel> named_neurons() {
  std::vector<NamedKernel> all{
      {"MPSCNNNeuronGradient", refuses_two_sources, make_gradient<forward, gradient>, is_relun}};
  for (const char* name : kForwardNames) {
    all.push_back({name, refuses_one_source, make_forward<forward>});
  }
  return all;
}

}  // namespace traingraph::metal
