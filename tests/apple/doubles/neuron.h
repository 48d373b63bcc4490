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

  // Of a descriptor, or of a kernel that has taken one over.
  template <class Holder>
  explicit Neuron(const Holder* holder) {
    if (holder == nil) return;
    type = holder->_neuronType;
    a = holder->_a, b = holder->_b, c = holder->_c;
    if (type != MPSCNNNeuronTypePReLU) return;
    expect(holder->_data != nil, "a PReLU without its slopes");
    const auto* first = static_cast<const float*>([holder->_data bytes]);
    slopes.assign(first, first + [holder->_data length] / sizeof(float));
  }
  Neuron() = default;
  double value(double x, NSUInteger channel = 0) const;
  double derivative(double x, NSUInteger channel = 0) const;
};

}  // namespace apple
