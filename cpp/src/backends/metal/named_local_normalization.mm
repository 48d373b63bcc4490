// Normalizations over neighbouring channels or pixels. Their gradients are composed of other ops:
// Apple's texts are not the derivatives, and what the kernels compute nobody has measured
// (https://developer.apple.com/documentation/metalperformanceshaders/mpscnnspatialnormalizationgradient).
#include "backends/metal/named_kernels.h"

namespace traingraph::metal {
namespace {

template <class K>
Ref<K*> windowed(const ir::Node& node, id<MTLDevice> gpu, const std::string& prefix) {
  const auto kernel =
      Ref<K*>::own([[K alloc] initWithDevice:gpu
                                 kernelWidth:count_of(node, prefix + "kernel_width")
                                kernelHeight:count_of(node, prefix + "kernel_height")]);
  return kernel;
}

template <class K>
void set_parameters(K* kernel, const ir::Node& node) {
  [kernel setAlpha:static_cast<float>(number_of(node, "alpha"))];
  [kernel setBeta:static_cast<float>(number_of(node, "beta"))];
  [kernel setDelta:static_cast<float>(number_of(node, "delta"))];
}

Ref<MPSCNNKernel*> cross_channel(const ir::Node& node, id<MTLDevice> gpu, const std::string&) {
  const auto kernel = Ref<MPSCNNCrossChannelNormalization*>::own(
      [[MPSCNNCrossChannelNormalization alloc] initWithDevice:gpu
                                                   kernelSize:count_of(node, "kernel_size")]);
  set_parameters(kernel.get(), node);
  return Ref<MPSCNNKernel*>::keep(kernel.get());
}

Ref<MPSCNNKernel*> spatial(const ir::Node& node, id<MTLDevice> gpu, const std::string& prefix) {
  const auto kernel = windowed<MPSCNNSpatialNormalization>(node, gpu, prefix);
  set_parameters(kernel.get(), node);
  return Ref<MPSCNNKernel*>::keep(kernel.get());
}

Ref<MPSCNNKernel*> local_contrast(const ir::Node& node, id<MTLDevice> gpu,
                                  const std::string& prefix) {
  const auto kernel = windowed<MPSCNNLocalContrastNormalization>(node, gpu, prefix);
  set_parameters(kernel.get(), node);
  [kernel.get() setP0:static_cast<float>(number_of(node, "p0"))];
  [kernel.get() setPm:static_cast<float>(number_of(node, "pm"))];
  [kernel.get() setPs:static_cast<float>(number_of(node, "ps"))];
  return Ref<MPSCNNKernel*>::keep(kernel.get());
}

}  // namespace

std::vector<NamedKernel> named_local_normalizations() {
  return {
      {"MPSCNNCrossChannelNormalization", refuses_one_source, make_forward<cross_channel>},
      {"MPSCNNSpatialNormalization", refuses_one_source, make_forward<spatial>},
      {"MPSCNNLocalContrastNormalization", refuses_one_source, make_forward<local_contrast>},
  };
}

}  // namespace traingraph::metal
