#include "mps/describe_unary_nodes.h"

namespace traingraph::mps {
namespace {

using Node = ParameterNode<NeuronDescriptor>;

// A node by the name of its function, with the defaults of Apple's nodes.
struct NeuronName {
  NeuronType type;
  const char* name;
  const char* summary;
  std::vector<float> defaults = {};  // of a, b and c, as far as it has them
};

const NeuronName kNames[] = {
    {NeuronType::kReLU, "MPSCNNNeuronReLUNode", "Below 0: a x.", {0}},
    {NeuronType::kSigmoid, "MPSCNNNeuronSigmoidNode", "1 / (1 + e^-x)."},
    {NeuronType::kTanH, "MPSCNNNeuronTanHNode", "a tanh(b x).", {1, 1}},
    {NeuronType::kLinear, "MPSCNNNeuronLinearNode", "a x + b.", {1, 0}},
    {NeuronType::kAbsolute, "MPSCNNNeuronAbsoluteNode", "|x|."},
    {NeuronType::kSoftSign, "MPSCNNNeuronSoftSignNode", "x / (1 + |x|)."},
    {NeuronType::kGeLU, "MPSCNNNeuronGeLUNode", "x times the normal distribution at x."},
    {NeuronType::kELU, "MPSCNNNeuronELUNode", "Below 0: a (e^x - 1).", {1}},
    {NeuronType::kHardSigmoid, "MPSCNNNeuronHardSigmoidNode", "a x + b between 0 and 1.",
     {0.2f, 0.5f}},
    {NeuronType::kSoftPlus, "MPSCNNNeuronSoftPlusNode", "a log(1 + e^(b x)).", {1, 1}},
    {NeuronType::kReLUN, "MPSCNNNeuronReLUNNode", "ReLU with slope a below 0, at most b.", {0, 0}},
    {NeuronType::kPower, "MPSCNNNeuronPowerNode", "(a x + b)^c.", {1, 0, 1}},
    {NeuronType::kExponential, "MPSCNNNeuronExponentialNode", "c^(a x + b); c = -1: base e.",
     {1, 0, -1}},
    {NeuronType::kLogarithm, "MPSCNNNeuronLogarithmNode",
     "log of a x + b to base c; c = -1: base e.", {1, 0, -1}},
    {NeuronType::kPReLU, "MPSCNNNeuronPReLUNode", "ReLU with one slope per channel."},
};

constexpr const char* kParameters[] = {"a", "b", "c"};
constexpr float NeuronDescriptor::* kMembers[] = {&NeuronDescriptor::a, &NeuronDescriptor::b,
                                                  &NeuronDescriptor::c};
constexpr const char* kTexts[] = {"The first parameter.", "The second parameter.",
                                  "The third parameter."};

ClassDescription named(const NeuronName& name) {
  Arguments arguments;
  for (std::size_t k = 0; k < name.defaults.size(); ++k) {
    arguments.push_back(argument(kParameters[k], name.defaults[k], kTexts[k]));
    if (name.type == NeuronType::kReLUN) arguments.back().value_if_absent.reset();
  }
  if (name.type == NeuronType::kPReLU) {
    arguments.push_back(argument<std::vector<float>>("a_data", "The slopes, one per channel."));
  }
  const NodeRow<NeuronDescriptor> row(name.name, kNeuronNodes[0].gradient);
  return forward_node<NeuronDescriptor, Node>(
      row, name.summary, "The parameters are those of MPSNNNeuronDescriptor.", arguments,
      [type = name.type, count = name.defaults.size()](const Given& given) {
        NeuronDescriptor descriptor;
        descriptor.type = type;
        for (std::size_t k = 0; k < count; ++k) {
          descriptor.*kMembers[k] = given.get<float>(kParameters[k]);
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
  for (std::size_t k = 0; k < std::size(kMembers); ++k) {
    parameter(forward, kParameters[k], kMembers[k], kTexts[k]);
  }
  classes.push_back(forward);
  for (const NeuronName& name : kNames) classes.push_back(named(name));
  using Gradient = ParameterGradientNode<NeuronDescriptor>;
  classes.push_back(
      gradient_node(row, "dx = dy f'(x).", kWrongState, {function},
                    [descriptor](Gradient& node, const Given& given) {
                      node.set_parameters(descriptor(given));
                    })
          .property("descriptor", &Gradient::parameters, "The function."));
}

}  // namespace traingraph::mps
