#pragma once

#import <MetalPerformanceShaders/MetalPerformanceShaders.h>

// For .mm files only.
namespace traingraph::metal {

// ReLU is encoded as ELU with a = 0. Apple's own is a x below 0, and 0 times infinity is NaN.
constexpr MPSCNNNeuronType kReLU = MPSCNNNeuronTypeELU;

}  // namespace traingraph::metal
