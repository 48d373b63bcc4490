// Descriptions of neuron nodes: the general node, one node per row of kNeuronNames, and the
// gradient node.
#include <traingraph/mps/neuron_names.h>

#include "mps/description/describe_unary_nodes.h"

namespace traingraph::mps {
namespace {

using Node = ParameterNode<NeuronDescriptor>;

// With the defaults of Apple's nodes.
Arguments node_parameters_of(const NeuronName& name) {
  Arguments arguments;
  for (std::size_t k = 0; k < name.parameters; ++k) {
    const NeuronParameter& parameter = kNeuronParameters[k];
    arguments.push_back(argument(parameter.name, name.defaults[k], parameter.text,
                                 range_of_parameter(name.type, k)));
    if (!name.has_defaults) arguments.back().value_if_absent.reset();
  }
  if (name.type == NeuronType::kPReLU) {
    arguments.push_back(argument<std::vector<float>>("a_data", "The slopes, one per channel."));
  }
  return arguments;
}

ClassDescription named(const NeuronName& name) {
  const NodeRow<NeuronDescriptor> row(name.node, kNeuronNodes[0].gradient);
  return forward_node<NeuronDescriptor, Node>(
      row, name.summary, "The parameters are those of MPSNNNeuronDescriptor.",
      node_parameters_of(name), [&name](const Given& given) {
        NeuronDescriptor descriptor;
        descriptor.type = name.type;
        for (std::size_t k = 0; k < name.parameters; ++k) {
          const NeuronParameter& parameter = kNeuronParameters[k];
          descriptor.*parameter.member = given.get<float>(parameter.name);
        }
        descriptor.data = given.get<std::vector<float>>("a_data");
        return descriptor;
      });
}

}  // namespace

void describe_neuron_nodes(Classes& classes) {
  const NodeRow<NeuronDescriptor>& row = kNeuronNodes[0];
  const Argument function = argument<NeuronDescriptor>("descriptor", "The function.");
  const auto descriptor = [](const Given& given) {
    return given.get<NeuronDescriptor>("descriptor");
  };
  auto forward = forward_node(row, "y = f(x).", "Any function.", {function}, descriptor);
  for (const NeuronParameter& one : kNeuronParameters) {
    parameter(forward, one.name, one.member, one.text);
  }
  classes.push_back(forward);
  for (const NeuronName& name : kNeuronNames) classes.push_back(named(name));
  using Gradient = ParameterGradientNode<NeuronDescriptor>;
  classes.push_back(gradient_node(row, "dx = dy f'(x).", kWrongState, {function},
                                  [descriptor](Gradient& node, const Given& given) {
                                    node.set_parameters(descriptor(given));
                                  })
                        .property("descriptor", &Gradient::parameters, "The function."));
}

}  // namespace traingraph::mps
