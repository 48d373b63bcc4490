// Normalizations over neighbouring channels or pixels. Apple's texts of their gradients are not the
// derivatives, so these kernels are not settled
// (https://developer.apple.com/documentation/metalperformanceshaders/mpscnnspatialnormalizationgradient).
#include <type_traits>

#include "backends/metal/kernels/named_kernels.h"

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
  [kernel.get() setAlpha:float_of(node, "alpha")];
  [kernel.get() setBeta:float_of(node, "beta")];
  [kernel.get() setDelta:float_of(node, "delta")];
  if constexpr (kIsContrast<K>) {
    [kernel.get() setP0:float_of(node, "p0")];
    [kernel.get() setPm:float_of(node, "pm")];
    [kernel.get() setPs:float_of(node, "ps")];
  }
  return kernel;
}

template <class K, class G>
void add_pair(std::vector<NamedKernel>& to) {
  to.push_back(forward_row<K, made<K>>());
  to.push_back(gradient_row<G, made<K>, made<G>>(unsettled));
}

}  // namespace

std::vector<NamedKernel> named_local_normalizations() {
  std::vector<NamedKernel> all;
  add_pair<MPSCNNCrossChannelNormalization, MPSCNNCrossChannelNormalizationGradient>(all);
  add_pair<MPSCNNSpatialNormalization, MPSCNNSpatialNormalizationGradient>(all);
  add_pair<MPSCNNLocalContrastNormalization, MPSCNNLocalContrastNormalizationGradient>(all);
  return all;
}

}  // namespace traingraph::metal
