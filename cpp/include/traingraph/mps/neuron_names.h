#pragma once

#include <cstddef>

#include <traingraph/mps/neuron.h>

// The functions that have classes by name: one table for kernels and nodes.
namespace traingraph::mps {

struct NeuronName {
  NeuronType type;
  const char* name;  // of the kernel; the node's has Node at its end
  const char* summary;
  std::size_t parameters = 0;  // how many of a, b and c it has
  float defaults[3] = {};      // of Apple's nodes
  bool has_kernel = true;
  bool has_defaults = true;
};

inline constexpr NeuronName kNeuronNames[] = {
    {NeuronType::kReLU, "MPSCNNNeuronReLU", "Below 0: a x.", 1, {0}},
    {NeuronType::kSigmoid, "MPSCNNNeuronSigmoid", "1 / (1 + e^-x)."},
    {NeuronType::kTanH, "MPSCNNNeuronTanH", "a tanh(b x).", 2, {1, 1}},
    {NeuronType::kLinear, "MPSCNNNeuronLinear", "a x + b.", 2, {1, 0}},
    {NeuronType::kAbsolute, "MPSCNNNeuronAbsolute", "|x|."},
    {NeuronType::kSoftSign, "MPSCNNNeuronSoftSign", "x / (1 + |x|)."},
    {NeuronType::kGeLU, "MPSCNNNeuronGeLU", "x times the normal distribution at x.", 0, {}, false},
    {NeuronType::kELU, "MPSCNNNeuronELU", "Below 0: a (e^x - 1).", 1, {1}},
    {NeuronType::kHardSigmoid,
     "MPSCNNNeuronHardSigmoid",
     "a x + b between 0 and 1.",
     2,
     {0.2f, 0.5f}},
    {NeuronType::kSoftPlus, "MPSCNNNeuronSoftPlus", "a log(1 + e^(b x)).", 2, {1, 1}},
    {NeuronType::kReLUN,
     "MPSCNNNeuronReLUN",
     "ReLU with slope a below 0, at most b.",
     2,
     {},
     true,
     false},
    {NeuronType::kPower, "MPSCNNNeuronPower", "(a x + b)^c.", 3, {1, 0, 1}},
    {NeuronType::kExponential,
     "MPSCNNNeuronExponential",
     "c^(a x + b); c = -1: base e.",
     3,
     {1, 0, -1}},
    {NeuronType::kLogarithm,
     "MPSCNNNeuronLogarithm",
     "log of a x + b to base c; c = -1: base e.",
     3,
     {1, 0, -1}},
    // The slopes have other names in kernels than in nodes.
    {NeuronType::kPReLU, "MPSCNNNeuronPReLU", "ReLU with one slope per channel."},
};

struct NeuronParameter {
  const char* name;
  float NeuronDescriptor::* member;
  const char* text;
};
inline constexpr NeuronParameter kNeuronParameters[] = {
    {"a", &NeuronDescriptor::a, "The first parameter."},
    {"b", &NeuronDescriptor::b, "The second parameter."},
    {"c", &NeuronDescriptor::c, "The third parameter."},
};

}  // namespace traingraph::mps
