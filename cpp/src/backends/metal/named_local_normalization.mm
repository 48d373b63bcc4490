// Normalizations over neighbouring channels or pixels. Apple's texts of their gradients are not the
// derivatives, so these kernels are on trial
// (https://developer.apple.com/documentation/metalperformanceshaders/mpscnnspatialnormalizationgradient).
#include <type_traits>

#include "backends/metal/named_kernels.h"

namespace traingraph::metal {
namespace {

template <class K>
constexpr bool kAcrossChannels = std::is_same_v<K, MPSCNNCrossChannelNormalization> ||
                                 std::is_same_v<K, MPSCNNCrossChannelNormalizationGradient>;
template <class K>
constexpr bool kIsContrast = std::is_same_v<K, MPSCNNLocalContrastNormalization> ||
                             std::is_same_v<K, MPSCNNLocalContrastNormalizationGradient>;

template <class K>
Ref<K*> sized(const ir::Node& node, id<MTLDevice> gpu, const std::string& prefix) {
  if constexpr (kAcrossChannels<K>) {
    return Ref<K*>::own([[K alloc] initWithDevice:gpu kernelSize:count_of(node, "kernel_size")]);
  } else {
    return Ref<K*>::own([[K alloc] initWithDevice:gpu
                                      kernelWidth:count_of(node, prefix + "kernel_width")
                                     kernelHeight:count_of(node, prefix + "kernel_height")]);
  }
}

template <class K>
Ref<K*> made(const ir::Node& node, id<MTLDevice> gpu, const std::string& prefix) {
  const Ref<K*> kernel = sized<K>(node, gpu, prefix);
  [kernel.get() setAlpha:static_cast<float>(number_of(node, "alpha"))];
  [kernel.get() setBeta:static_cast<float>(number_of(node, "beta"))];
  [kernel.get() setDelta:static_cast<float>(number_of(node, "delta"))];
  if constexpr (kIsContrast<K>) {
    [kernel.get() setP0:static_cast<float>(number_of(node, "p0"))];
    [kernel.get() setPm:static_cast<float>(number_of(node, "pm"))];
    [kernel.get() setPs:static_cast<float>(number_of(node, "ps"))];
  }
  return kernel;
}

template <class K>
Ref<MPSCNNKernel*> forward(const ir::Node& node, id<MTLDevice> gpu, const std::string& prefix) {
  return Ref<MPSCNNKernel*>::keep(made<K>(node, gpu, prefix).get());
}
template <class K>
Ref<MPSCNNGradientKernel*> gradient(const ir::Node& node, id<MTLDevice> gpu) {
  return Ref<MPSCNNGradientKernel*>::keep(made<K>(node, gpu, "secondary_").get());
}

template <class Forward, class Gradient>
void add_pair(std::vector<NamedKernel>& to, const char* name, const char* gradient_name) {
  to.push_back({name, refuses_one_source, make_forward<forward<Forward>>});
  to.push_back({gradient_name, refuses_two_sources,
                make_gradient<forward<Forward>, gradient<Gradient>>, always});
}

}  // namespace

std::vector<NamedKernel> named_local_normalizations() {
  std::vector<NamedKernel> all;
  add_pair<MPSCNNCrossChannelNormalization, MPSCNNCrossChannelNormalizationGradient>(
      all, "MPSCNNCrossChannelNormalization", "MPSCNNCrossChannelNormalizationGradient");
  add_pair<MPSCNNSpatialNormalization, MPSCNNSpatialNormalizationGradient>(
      all, "MPSCNNSpatialNormalization", "MPSCNNSpatialNormalizationGradient");
  add_pair<MPSCNNLocalContrastNormalization, MPSCNNLocalContrastNormalizationGradient>(
      all, "MPSCNNLocalContrastNormalization", "MPSCNNLocalContrastNormalizationGradient");
  return all;
}

}  // namespace traingraph::metal
