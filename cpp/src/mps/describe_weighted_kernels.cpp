#include "mps/kernel_description.h"

namespace traingraph::mps {
namespace {

template <class K>
Describing<K> describe_weighted(KernelTable& table, const char* kind) {
  Describing<K> weighted(table, kind);
  weighted.argument("weights", &K::data_source).template made_of<CNNConvolutionDataSourcePtr>();
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
