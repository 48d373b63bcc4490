#include "mps/kernel_description.h"

namespace traingraph::mps {
namespace {

// Sizes alone: batch normalization is part of the weights.
template <class K>
CNNConvolutionDescriptor sizes_of(const K& kernel) {
  CNNConvolutionDescriptor sizes = kernel.descriptor();
  sizes.batch_normalization = nullptr;
  sizes.fused_neuron_descriptor = {};
  return sizes;
}
template <class K>
NeuronDescriptor neuron_of(const K& kernel) {
  return kernel.descriptor().fused_neuron_descriptor;
}

template <class K>
OldDescribing<K> describe_weighted(KernelTable& table, const char* kind) {
  OldDescribing<K> weighted(table, kind);
  weighted.argument("weights", &K::data_source)
      .told("descriptor", sizes_of<K>)
      .told("fused_neuron_descriptor", neuron_of<K>)
      .template made_of<CNNConvolutionDataSourcePtr>();
  return weighted;
}

template <class K>
void describe_gradient(KernelTable& table, const char* kind) {
  describe_weighted<K>(table, kind)
      .property("gradient_option", &K::gradient_option, &K::set_gradient_option);
}

}  // namespace

void describe_weighted_kernels(KernelTable& table) {
  describe_weighted<CNNConvolution>(table, "MPSCNNConvolution");
  describe_weighted<CNNFullyConnected>(table, "MPSCNNFullyConnected");
  using Transpose = CNNConvolutionTranspose;
  describe_weighted<Transpose>(table, "MPSCNNConvolutionTranspose")
      .property("kernel_offset_x", &Transpose::kernel_offset_x, &Transpose::set_kernel_offset_x)
      .property("kernel_offset_y", &Transpose::kernel_offset_y, &Transpose::set_kernel_offset_y);
  describe_gradient<CNNConvolutionGradient>(table, "MPSCNNConvolutionGradient");
  describe_gradient<CNNFullyConnectedGradient>(table, "MPSCNNFullyConnectedGradient");
  describe_gradient<CNNConvolutionTransposeGradient>(table, "MPSCNNConvolutionTransposeGradient");
}

}  // namespace traingraph::mps
