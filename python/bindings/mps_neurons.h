#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "mps_bindings.h"

// The neurons that have classes by name: one table for kernels and nodes.
namespace traingraph::python {

struct NeuronName {
  mps::NeuronType type;
  const char* name;        // MPSCNNNeuronReLU and MPSCNNNeuronReLUNode
  const char* parameters;  // with the defaults of Apple's nodes
  const char* doc;
  bool has_kernel = true;
};

inline constexpr std::array kNeuronNames = {
    NeuronName{mps::NeuronType::kReLU, "ReLU", ", a: float = 0.0", "Below 0: a x."},
    NeuronName{mps::NeuronType::kSigmoid, "Sigmoid", "", "1 / (1 + e^-x)."},
    NeuronName{mps::NeuronType::kTanH, "TanH", ", a: float = 1.0, b: float = 1.0", "a tanh(b x)."},
    NeuronName{mps::NeuronType::kLinear, "Linear", ", a: float = 1.0, b: float = 0.0", "a x + b."},
    NeuronName{mps::NeuronType::kAbsolute, "Absolute", "", "|x|."},
    NeuronName{mps::NeuronType::kSoftSign, "SoftSign", "", "x / (1 + |x|)."},
    NeuronName{mps::NeuronType::kGeLU, "GeLU", "", "x times the normal distribution at x.", false},
    NeuronName{mps::NeuronType::kELU, "ELU", ", a: float = 1.0", "Below 0: a (e^x - 1)."},
    NeuronName{mps::NeuronType::kHardSigmoid, "HardSigmoid", ", a: float = 0.2, b: float = 0.5",
               "a x + b between 0 and 1."},
    NeuronName{mps::NeuronType::kSoftPlus, "SoftPlus", ", a: float = 1.0, b: float = 1.0",
               "a log(1 + e^(b x))."},
    NeuronName{mps::NeuronType::kReLUN, "ReLUN", ", a: float, b: float",
               "ReLU with slope a below 0, at most b."},
    NeuronName{mps::NeuronType::kPower, "Power", ", a: float = 1.0, b: float = 0.0, c: float = 1.0",
               "(a x + b)^c."},
    NeuronName{mps::NeuronType::kExponential, "Exponential",
               ", a: float = 1.0, b: float = 0.0, c: float = -1.0", "c^(a x + b); c = -1: base e."},
    NeuronName{mps::NeuronType::kLogarithm, "Logarithm",
               ", a: float = 1.0, b: float = 0.0, c: float = -1.0",
               "log of a x + b to base c; c = -1: base e."},
    // The slopes have other names in kernels than in nodes.
    NeuronName{mps::NeuronType::kPReLU, "PReLU", "", "ReLU with one slope per channel."},
};

// Calls f.template operator()<type>(row) for each.
template <typename F>
void each_neuron(const F& f) {
  [&f]<std::size_t... kRow>(std::index_sequence<kRow...>) {
    (f.template operator()<kNeuronNames[kRow].type>(kNeuronNames[kRow]), ...);
  }(std::make_index_sequence<kNeuronNames.size()>());
}

// The numbers that were given, with the descriptor's own for those that the form does not have.
inline mps::NeuronDescriptor named_neuron(const NeuronName& row, const Arguments& a,
                                          std::vector<float> slopes) {
  mps::NeuronDescriptor descriptor;
  descriptor.type = row.type;
  descriptor.data = std::move(slopes);
  if (row.type == mps::NeuronType::kPReLU) return descriptor;
  descriptor.a = a.optional<float>("a").value_or(descriptor.a);
  descriptor.b = a.optional<float>("b").value_or(descriptor.b);
  descriptor.c = a.optional<float>("c").value_or(descriptor.c);
  return descriptor;
}

}  // namespace traingraph::python
