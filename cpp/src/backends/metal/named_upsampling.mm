// MPSCNNUpsampling… and their gradients, which learn from the state where corners are.
#include "backends/metal/named_kernels.h"

namespace traingraph::metal {
namespace {

template <class K>
Ref<K*> scaled(const ir::Node& node, id<MTLDevice> gpu) {
  return Ref<K*>::own([[K alloc] initWithDevice:gpu
                            integerScaleFactorX:count_of(node, "integer_scale_factor_x")
                            integerScaleFactorY:count_of(node, "integer_scale_factor_y")]);
}

Ref<MPSCNNKernel*> nearest(const ir::Node& node, id<MTLDevice> gpu, const std::string&) {
  return Ref<MPSCNNKernel*>::keep(scaled<MPSCNNUpsamplingNearest>(node, gpu).get());
}
Ref<MPSCNNKernel*> bilinear(const ir::Node& node, id<MTLDevice> gpu, const std::string&) {
  return Ref<MPSCNNKernel*>::own([[MPSCNNUpsamplingBilinear alloc]
           initWithDevice:gpu
      integerScaleFactorX:count_of(node, "integer_scale_factor_x")
      integerScaleFactorY:count_of(node, "integer_scale_factor_y")
             alignCorners:count_of(node, "align_corners") != 0]);
}
template <class K>
Ref<MPSCNNGradientKernel*> gradient(const ir::Node& node, id<MTLDevice> gpu) {
  return Ref<MPSCNNGradientKernel*>::keep(scaled<K>(node, gpu).get());
}

}  // namespace

std::vector<NamedKernel> named_upsampling() {
  return {
      {"MPSCNNUpsamplingNearest", refuses_one_source, make_forward<nearest>},
      {"MPSCNNUpsamplingNearestGradient", refuses_two_sources,
       make_gradient<nearest, gradient<MPSCNNUpsamplingNearestGradient>>},
      {"MPSCNNUpsamplingBilinear", refuses_one_source, make_forward<bilinear>},
      {"MPSCNNUpsamplingBilinearGradient", refuses_two_sources,
       make_gradient<bilinear, gradient<MPSCNNUpsamplingBilinearGradient>>},
  };
}

}  // namespace traingraph::metal
