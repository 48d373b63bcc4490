// MPSCNNUpsampling… and their gradients, which learn from the state where corners are.
#include "backends/metal/kernels/named_kernels.h"

namespace traingraph::metal {
namespace {

template <class K>
Ref<K*> scaled(const ir::Node& node, id<MTLDevice> gpu, const std::string&) {
  return Ref<K*>::own([[K alloc] initWithDevice:gpu
                            integerScaleFactorX:count_of(node, "integer_scale_factor_x")
                            integerScaleFactorY:count_of(node, "integer_scale_factor_y")]);
}

Ref<MPSCNNUpsamplingBilinear*> bilinear(const ir::Node& node, id<MTLDevice> gpu,
                                        const std::string&) {
  return Ref<MPSCNNUpsamplingBilinear*>::own([[MPSCNNUpsamplingBilinear alloc]
           initWithDevice:gpu
      integerScaleFactorX:count_of(node, "integer_scale_factor_x")
      integerScaleFactorY:count_of(node, "integer_scale_factor_y")
             alignCorners:count_of(node, "align_corners") != 0]);
}

}  // namespace

std::vector<NamedKernel> named_upsampling() {
  using Nearest = MPSCNNUpsamplingNearest;
  using NearestGradient = MPSCNNUpsamplingNearestGradient;
  using BilinearGradient = MPSCNNUpsamplingBilinearGradient;
  return {
      forward_row<Nearest, scaled<Nearest>>(),
      gradient_row<NearestGradient, scaled<Nearest>, scaled<NearestGradient>>(),
      forward_row<MPSCNNUpsamplingBilinear, bilinear>(),
      gradient_row<BilinearGradient, bilinear, scaled<BilinearGradient>>(),
  };
}

}  // namespace traingraph::metal
