// The sixteen neuron functions and their derivatives.
#pragma once
#include <vector>

#include "doubles.h"

namespace apple {

// What a descriptor says, taken over when something is encoded.
struct Neuron {
  MPSCNNNeuronType type = MPSCNNNeuronTypeNone;
  float a = 0, b = 0, c = 0;
  std::vector<float> slopes;  // PReLU: one for each channel

  explicit Neuron(const MPSNNNeuronDescriptor* descriptor);
  Neuron() = default;
  double value(double x, NSUInteger channel = 0) const;
  double derivative(double x, NSUInteger channel = 0) const;
};

}  // namespace apple
