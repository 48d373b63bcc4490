// MPSNNReduce… along one axis, also with weights, and Gram matrices.
#include "backends/metal/kernels/named_kernels.h"

namespace traingraph::metal {
namespace {

// A rectangle of the source; one without bounds is Apple's default.
MTLRegion region_of(const ir::Node& node, const std::string& name) {
  const auto part = [&](const char* which) { return count_of(node, name + which); };
  return MTLRegionMake3D(part(".0.0"), part(".0.1"), part(".0.2"), part(".1.0"), part(".1.1"),
                         part(".1.2"));
}

template <class K>
Ref<K*> along(const ir::Node& node, id<MTLDevice> gpu, const std::string&) {
  const auto kernel = Ref<K*>::own([[K alloc] initWithDevice:gpu]);
  [kernel.get() setClipRectSource:region_of(node, "clip_rect_source")];
  return kernel;
}
Ref<MPSNNReduceFeatureChannelsSum*> sum_of_channels(const ir::Node& node, id<MTLDevice> gpu,
                                                    const std::string& prefix) {
  const auto kernel = along<MPSNNReduceFeatureChannelsSum>(node, gpu, prefix);
  [kernel.get() setWeight:float_of(node, "weight")];
  return kernel;
}

template <class K>
Ref<K*> with_rectangles(const ir::Node& node, Ref<K*> kernel) {
  [kernel.get() setPrimarySourceClipRect:region_of(node, "primary_source_clip_rect")];
  [kernel.get() setSecondarySourceClipRect:region_of(node, "secondary_source_clip_rect")];
  return kernel;
}
using WeightedMean = MPSNNReduceFeatureChannelsAndWeightsMean;
Ref<WeightedMean*> weighted_mean(const ir::Node& node, id<MTLDevice> gpu, const std::string&) {
  return with_rectangles(node, Ref<WeightedMean*>::own([[WeightedMean alloc] initWithDevice:gpu]));
}
using WeightedSum = MPSNNReduceFeatureChannelsAndWeightsSum;
Ref<WeightedSum*> weighted_sum(const ir::Node& node, id<MTLDevice> gpu, const std::string&) {
  const bool by_count = number_of(node, "do_weighted_sum_by_non_zero_weights") != 0;
  return with_rectangles(node,
                         Ref<WeightedSum*>::own([[WeightedSum alloc] initWithDevice:gpu
                                                      doWeightedSumByNonZeroWeights:by_count]));
}

template <class K>
Ref<K*> gram(const ir::Node& node, id<MTLDevice> gpu, const std::string&) {
  return Ref<K*>::own([[K alloc] initWithDevice:gpu alpha:float_of(node, "alpha")]);
}

template <class... K>
void add_along(std::vector<NamedKernel>& to) {
  (to.push_back(forward_row<K, along<K>>()), ...);
}

}  // namespace

std::vector<NamedKernel> named_reductions() {
  using Gram = MPSNNGramMatrixCalculation;
  using GramGradient = MPSNNGramMatrixCalculationGradient;
  std::vector<NamedKernel> all{
      forward_row<MPSNNReduceFeatureChannelsSum, sum_of_channels>(),
      binary_row<WeightedMean, weighted_mean>(),
      binary_row<WeightedSum, weighted_sum>(),
      forward_row<Gram, gram<Gram>>(),
      gradient_row<GramGradient, gram<Gram>, gram<GramGradient>>(),
  };
  add_along<MPSNNReduceRowSum, MPSNNReduceRowMean, MPSNNReduceRowMin, MPSNNReduceRowMax,
            MPSNNReduceColumnSum, MPSNNReduceColumnMean, MPSNNReduceColumnMin, MPSNNReduceColumnMax,
            MPSNNReduceFeatureChannelsMean, MPSNNReduceFeatureChannelsMin,
            MPSNNReduceFeatureChannelsMax, MPSNNReduceFeatureChannelsArgumentMin,
            MPSNNReduceFeatureChannelsArgumentMax>(all);
  return all;
}

}  // namespace traingraph::metal
