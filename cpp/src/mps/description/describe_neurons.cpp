// Neurons, by a descriptor and by name.
#include <traingraph/errors.h>
#include <traingraph/mps/neuron_names.h>

#include "mps/description/describe_kernel.h"

namespace traingraph::mps {
namespace {

constexpr const char* kNeuron = "neuron_descriptor";
constexpr const char* kNeuronText = "The function with its parameters.";
constexpr Range kSecondParameter{-kInfinite, kInfinite, "a finite number; of ReLUN maybe infinite"};

// The first `count` slopes of a PReLU, or all.
std::vector<float> slopes_of(const Given& given) {
  auto slopes = given.get<std::vector<float>>("a");
  const std::any& count = *given.find("count");
  if (!count.has_value()) return slopes;
  const auto number = std::any_cast<std::int64_t>(count);
  if (number < 1 || number > static_cast<std::int64_t>(slopes.size())) {
    throw InvalidArgument("[MPSCNNNeuronPReLU] expected a count from 1 to " +
                          std::to_string(slopes.size()) + ", the slopes, but got " +
                          std::to_string(number));
  }
  slopes.resize(static_cast<std::size_t>(number));
  return slopes;
}

// What a form has of them; the rest is the descriptor's own.
NeuronDescriptor named_neuron(const NeuronName& name, const Given& given) {
  NeuronDescriptor descriptor;
  descriptor.type = name.type;
  for (std::size_t k = 0; k < name.parameters; ++k) {
    descriptor.*kNeuronParameters[k].member = given.get<float>(kNeuronParameters[k].name);
  }
  if (name.type == NeuronType::kPReLU) descriptor.data = slopes_of(given);
  return descriptor;
}

// Without defaults: Apple marks a kernel's initWithDevice: as unavailable.
std::vector<Argument> parameters_of(const NeuronName& name) {
  std::vector<Argument> arguments{device_argument()};
  for (std::size_t k = 0; k < name.parameters; ++k) {
    arguments.push_back(argument<float>(kNeuronParameters[k].name, kNeuronParameters[k].text,
                                        range_of_parameter(name.type, k)));
  }
  if (name.type == NeuronType::kPReLU) {
    arguments.push_back(argument<std::vector<float>>("a", "The slopes, one per channel."));
    arguments.push_back(optional_argument<std::int64_t>(
        "count", "The number of slopes; all of them without it.", &kOneOrMore));
  }
  return arguments;
}

void describe_neuron(Classes& classes, const NeuronName& name) {
  using K = CNNNeuron;
  classes.push_back(
      describe_kernel<K, K>(name.name, name.summary)
          .form(parameters_of(name),
                [&name](const Given& given) {
                  return std::make_shared<K>(given.get<Device>("device"), named_neuron(name, given),
                                             name.name);
                })
          .kept_argument(kNeuron, &K::descriptor, "This class's function with its parameters.")
          .made_by("MPSCNNNeuron with a function of its own. Shapes: any to the same. Errors: the "
                   "descriptor of another function, and a number outside its range.",
                   [&name](const Given& given) {
                     auto descriptor = given.get<NeuronDescriptor>(kNeuron);
                     if (descriptor.type != name.type) {
                       throw InvalidArgument("[" + std::string(name.name) +
                                             "] expected a descriptor of neuron type " +
                                             std::to_string(static_cast<int>(name.type)) +
                                             " but got one of " +
                                             std::to_string(static_cast<int>(descriptor.type)));
                     }
                     return std::make_shared<K>(given.get<Device>("device"), std::move(descriptor),
                                                name.name);
                   }));
}

}  // namespace

const ClassDescription& NeuronDescriptor::class_description() {
  using D = NeuronDescriptor;
  static const ClassDescription description =
      Describing<D>("MPSNNNeuronDescriptor", "A neuron's function and its parameters.")
          .factory("cnn_neuron_descriptor", "What a, b and c mean depends on the type.",
                   {{argument<NeuronType>("with_type", "The function."),
                     argument("a", 1.0f, "The first parameter.", &kFinite),
                     argument("b", 1.0f, "The second parameter.", &kSecondParameter),
                     argument("c", 1.0f, "The third parameter.", &kFinite)}},
                   [](const Given& given) {
                     return D{given.get<NeuronType>("with_type"),
                              given.get<float>("a"),
                              given.get<float>("b"),
                              given.get<float>("c"),
                              {}};
                   })
          .factory("cnn_neuron_prelu_descriptor",
                   "PReLU with one slope per channel; the slopes are always copied.",
                   {{argument<std::vector<float>>("with_data", "The slopes."),
                     argument("no_copy", false, "Ignored.")}},
                   [](const Given& given) {
                     D descriptor;
                     descriptor.type = NeuronType::kPReLU;
                     descriptor.data = given.get<std::vector<float>>("with_data");
                     return descriptor;
                   })
          .settable("neuron_type", &D::type, "The function.")
          .settable("a", &D::a, "The first parameter.")
          .in(kFinite)
          .settable("b", &D::b, "The second parameter.")
          .in(kSecondParameter)
          .settable("c", &D::c, "The third parameter.")
          .in(kFinite)
          .settable("data", &D::data, "PReLU's slopes.");
  return description;
}

void describe_neuron_values(Classes& classes) {
  classes.push_back(NeuronDescriptor::class_description());
}

void describe_neurons(Classes& classes) {
  using Gradient = CNNNeuronGradient;
  classes.push_back(
      describe_kernel<CNNNeuron, CNNKernel>("MPSCNNNeuron", "y = f(x), element by element.")
          .kept_argument(kNeuron, &CNNNeuron::descriptor, kNeuronText)
          .properties_of(&CNNNeuron::descriptor)
          .made_of<Device, NeuronDescriptor>("Shapes: any to the same."));
  classes.push_back(
      describe_kernel<Gradient, CNNGradientKernel>("MPSCNNNeuronGradient",
                                                   "dx = dy f'(x), the exact derivative.")
          .kept_argument(kNeuron, &Gradient::descriptor, kNeuronText)
          .properties_of(&Gradient::descriptor)
          .settable("header_formula", &Gradient::header_formula, &Gradient::set_header_formula,
                    "Whether Apple's table is followed in place of the derivative, for comparison: "
                    "ReLUN has b from b on. An addition of traingraph. Errors: other types, which "
                    "the table has right.")
          .made_of<Device, NeuronDescriptor>("Gradient: reads the forward source."));
  for (const NeuronName& name : kNeuronNames) {
    if (name.has_kernel) describe_neuron(classes, name);
  }
}

}  // namespace traingraph::mps
