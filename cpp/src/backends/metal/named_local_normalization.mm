// Normalizations over neighbouring channels or pixels. Apple's texts of their gradients are not the
// derivatives, so these kernels are on trial
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

template <class K>
Ref<K*> cross_channel(const ir::Node& node, id<MTLDevice> gpu, const std::string&) {
  const auto kernel = Ref<K*>::own([[K alloc] initWithDevice:gpu
                                                  kernelSize:count_of(node, "kernel_size")]);
  set_parameters(kernel.get(), node);
  return kernel;
}

template <class K>
Ref<K*> spatial(const ir::Node& node, id<MTLDevice> gpu, const std::string& prefix) {
  const auto kernel = windowed<K>(node, gpu, prefix);
  set_parameters(kernel.get(), node);
  return kernel;
}

template <class K>
Ref<K*> local_contrast(const ir::Node& node, id<MTLDevice> gpu, const std::string& prefix) {
  const auto kernel = spatial<K>(node, gpu, prefix);
  [kernel.get() setP0:static_cast<float>(number_of(node, "p0"))];
  [kernel.get() setPm:static_cast<float>(number_of(node, "pm"))];
  [kernel.get() setPs:static_cast<float>(number_of(node, "ps"))];
  return kernel;
}

template <class K>
using MakerOf = Ref<K*> (*)(const ir::Node&, id<MTLDevice>, const std::string&);

template <class K, MakerOf<K> kMake>
Ref<MPSCNNKernel*> forward(const ir::Node& node, id<MTLDevice> gpu, const std::string& prefix) {
  return Ref<MPSCNNKernel*>::keep(kMake(node, gpu, prefix).get());
}
template <class K, MakerOf<K> kMake>
Ref<MPSCNNGradientKernel*> gradient(const ir::Node& node, id<MTLDevice> gpu) {
  return Ref<MPSCNNGradientKernel*>::keep(kMake(node, gpu, "secondary_").get());
}

bool always(const ir::Node&) { return true; }

using CrossChannel = MPSCNNCrossChannelNormalization;
using CrossChannelGradient = MPSCNNCrossChannelNormalizationGradient;
using Spatial = MPSCNNSpatialNormalization;
using SpatialGradient = MPSCNNSpatialNormalizationGradient;
using Contrast = MPSCNNLocalContrastNormalization;
using ContrastGradient = MPSCNNLocalContrastNormalizationGradient;

}  // namespace

std::vector<NamedKernel> named_local_normalizations() {
  return {
      {"MPSCNNCrossChannelNormalization", refuses_one_source,
       make_forward<forward<CrossChannel, cross_channel<CrossChannel>>>},
      {"MPSCNNCrossChannelNormalizationGradient", refuses_two_sources,
       make_gradient<forward<CrossChannel, cross_channel<CrossChannel>>,
                     gradient<CrossChannelGradient, cross_channel<CrossChannelGradient>>>,
       always},
      {"MPSCNNSpatialNormalization", refuses_one_source,
       make_forward<forward<Spatial, spatial<Spatial>>>},
      {"MPSCNNSpatialNormalizationGradient", refuses_two_sources,
       make_gradient<forward<Spatial, spatial<Spatial>>,
                     gradient<SpatialGradient, spatial<SpatialGradient>>>,
       always},
      {"MPSCNNLocalContrastNormalization", refuses_one_source,
       make_forward<forward<Contrast, local_contrast<Contrast>>>},
      {"MPSCNNLocalContrastNormalizationGradient", refuses_two_sources,
       make_gradient<forward<Contrast, local_contrast<Contrast>>,
                     gradient<ContrastGradient, local_contrast<ContrastGradient>>>,
       always},
  };
}

}  // namespace traingraph::metal
