// Table of the activation functions that have classes by name, shared by kernels and nodes: names,
// parameters, defaults and ranges.
#pragma once

#include <cstddef>

#include <traingraph/mps/neuron.h>
#include <traingraph/range.h>

namespace traingraph::mps {

struct NeuronName {
  NeuronType type;
  const char* name;  // of the kernel
  const char* node;
  const char* summary;
  std::size_t parameters = 0;  // how many of a, b and c it has
  float defaults[3] = {};      // of Apple's nodes
  bool has_kernel = true;
  bool has_defaults = true;
};

inline constexpr NeuronName kNeuronNames[] = {
    {NeuronType::kReLU, "MPSCNNNeuronReLU", "MPSCNNNeuronReLUNode", "Below 0: a x.", 1, {0}},
    {NeuronType::kSigmoid, "MPSCNNNeuronSigmoid", "MPSCNNNeuronSigmoidNode", "1 / (1 + e^-x)."},
    {NeuronType::kTanH, "MPSCNNNeuronTanH", "MPSCNNNeuronTanHNode", "a tanh(b x).", 2, {1, 1}},
    {NeuronType::kLinear, "MPSCNNNeuronLinear", "MPSCNNNeuronLinearNode", "a x + b.", 2, {1, 0}},
    {NeuronType::kAbsolute, "MPSCNNNeuronAbsolute", "MPSCNNNeuronAbsoluteNode", "|x|."},
    {NeuronType::kSoftSign, "MPSCNNNeuronSoftSign", "MPSCNNNeuronSoftSignNode", "x / (1 + |x|)."},
    {NeuronType::kGeLU,
     "MPSCNNNeuronGeLU",
     "MPSCNNNeuronGeLUNode",
     "x times the normal distribution at x.",
     0,
     {},
     false},
    {NeuronType::kELU, "MPSCNNNeuronELU", "MPSCNNNeuronELUNode", "Below 0: a (e^x - 1).", 1, {1}},
    {NeuronType::kHardSigmoid,
     "MPSCNNNeuronHardSigmoid",
     "MPSCNNNeuronHardSigmoidNode",
     "a x + b between 0 and 1.",
     2,
     {0.2f, 0.5f}},
    {NeuronType::kSoftPlus,
     "MPSCNNNeuronSoftPlus",
     "MPSCNNNeuronSoftPlusNode",
     "a log(1 + e^(b x)).",
     2,
     {1, 1}},
    {NeuronType::kReLUN,
     "MPSCNNNeuronReLUN",
     "MPSCNNNeuronReLUNNode",
     "ReLU with slope a below 0, at most b.",
     2,
     {},
     true,
     false},
    {NeuronType::kPower,
     "MPSCNNNeuronPower",
     "MPSCNNNeuronPowerNode",
     "(a x + b)^c.",
     3,
     {1, 0, 1}},
    {NeuronType::kExponential,
     "MPSCNNNeuronExponential",
     "MPSCNNNeuronExponentialNode",
     "c^(a x + b); c = -1: base e.",
     3,
     {1, 0, -1}},
    {NeuronType::kLogarithm,
     "MPSCNNNeuronLogarithm",
     "MPSCNNNeuronLogarithmNode",
     "log of a x + b to base c; c = -1: base e.",
     3,
     {1, 0, -1}},
    // The slopes have other names in kernels than in nodes.
    {NeuronType::kPReLU, "MPSCNNNeuronPReLU", "MPSCNNNeuronPReLUNode",
     "ReLU with one slope per channel."},
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

inline constexpr Range kBaseOfNeuron{-1, FLT_MAX, "above 0 and not 1; or -1, for e"};
// Of a parameter by its number. An infinite limit of ReLUN is none.
constexpr const Range* range_of_parameter(NeuronType type, std::size_t k) {
  if (k == 1 && type == NeuronType::kReLUN) return &kAnyNumber;
  const bool has_base = type == NeuronType::kExponential || type == NeuronType::kLogarithm;
  return k == 2 && has_base ? &kBaseOfNeuron : &kFinite;
}

}  // namespace traingraph::mps
