// MPSNNReduce… along one axis, also with weights, and Gram matrices.
#include "backends/metal/named_kernels.h"

namespace traingraph::metal {
namespace {

// A rectangle of the source; one without bounds is Apple's default.
MTLRegion region_of(const ir::Node& node, const std::string& name) {
  const auto part = [&](const char* which) { return count_of(node, name + which); };
  return MTLRegionMake3D(part(".0.0"), part(".0.1"), part(".0.2"), part(".1.0"), part(".1.1"),
                         part(".1.2"));
}

template <class K>
Ref<K*> made(const ir::Node& node, id<MTLDevice> gpu) {
  const auto kernel = Ref<K*>::own([[K alloc] initWithDevice:gpu]);
  [kernel.get() setClipRectSource:region_of(node, "clip_rect_source")];
  return kernel;
}
template <class K>
Ref<MPSCNNKernel*> along(const ir::Node& node, id<MTLDevice> gpu, const std::string&) {
  return Ref<MPSCNNKernel*>::keep(made<K>(node, gpu).get());
}
Ref<MPSCNNKernel*> sum_of_channels(const ir::Node& node, id<MTLDevice> gpu, const std::string&) {
  const auto kernel = made<MPSNNReduceFeatureChannelsSum>(node, gpu);
  [kernel.get() setWeight:static_cast<float>(number_of(node, "weight"))];
  return Ref<MPSCNNKernel*>::keep(kernel.get());
}

Ref<MPSCNNBinaryKernel*> with_rectangles(MPSNNReduceBinary* kernel, const ir::Node& node) {
  [kernel setPrimarySourceClipRect:region_of(node, "primary_source_clip_rect")];
  [kernel setSecondarySourceClipRect:region_of(node, "secondary_source_clip_rect")];
  return Ref<MPSCNNBinaryKernel*>::keep(kernel);
}
Ref<MPSCNNBinaryKernel*> weighted_mean(const ir::Node& node, id<MTLDevice> gpu) {
  using Mean = MPSNNReduceFeatureChannelsAndWeightsMean;
  return with_rectangles(Ref<Mean*>::own([[Mean alloc] initWithDevice:gpu]).get(), node);
}
Ref<MPSCNNBinaryKernel*> weighted_sum(const ir::Node& node, id<MTLDevice> gpu) {
  using Sum = MPSNNReduceFeatureChannelsAndWeightsSum;
  const bool by_count = number_of(node, "do_weighted_sum_by_non_zero_weights") != 0;
  const auto kernel = Ref<Sum*>::own([[Sum alloc] initWithDevice:gpu
                                   doWeightedSumByNonZeroWeights:by_count]);
  return with_rectangles(kernel.get(), node);
}

template <class Base, class K>
Ref<Base*> gram(const ir::Node& node, id<MTLDevice> gpu) {
  return Ref<Base*>::own([[K alloc] initWithDevice:gpu
                                             alpha:static_cast<float>(number_of(node, "alpha"))]);
}
Ref<MPSCNNKernel*> gram_matrix(const ir::Node& node, id<MTLDevice> gpu, const std::string&) {
  return gram<MPSCNNKernel, MPSNNGramMatrixCalculation>(node, gpu);
}
Ref<MPSCNNGradientKernel*> gram_gradient(const ir::Node& node, id<MTLDevice> gpu) {
  return gram<MPSCNNGradientKernel, MPSNNGramMatrixCalculationGradient>(node, gpu);
}

}  // namespace

std::vector<NamedKernel> named_reductions() {
  const auto row = [](const char* name, auto make) {
    return NamedKernel{name, refuses_one_source, make};
  };
  return {
      row("MPSNNReduceRowSum", make_forward<along<MPSNNReduceRowSum>>),
      row("MPSNNReduceRowMean", make_forward<along<MPSNNReduceRowMean>>),
      row("MPSNNReduceRowMin", make_forward<along<MPSNNReduceRowMin>>),
      row("MPSNNReduceRowMax", make_forward<along<MPSNNReduceRowMax>>),
      row("MPSNNReduceColumnSum", make_forward<along<MPSNNReduceColumnSum>>),
      row("MPSNNReduceColumnMean", make_forward<along<MPSNNReduceColumnMean>>),
      row("MPSNNReduceColumnMin", make_forward<along<MPSNNReduceColumnMin>>),
      row("MPSNNReduceColumnMax", make_forward<along<MPSNNReduceColumnMax>>),
      row("MPSNNReduceFeatureChannelsSum", make_forward<sum_of_channels>),
      row("MPSNNReduceFeatureChannelsMean", make_forward<along<MPSNNReduceFeatureChannelsMean>>),
      row("MPSNNReduceFeatureChannelsMin", make_forward<along<MPSNNReduceFeatureChannelsMin>>),
      row("MPSNNReduceFeatureChannelsMax", make_forward<along<MPSNNReduceFeatureChannelsMax>>),
      row("MPSNNReduceFeatureChannelsArgumentMin",
          make_forward<along<MPSNNReduceFeatureChannelsArgumentMin>>),
      row("MPSNNReduceFeatureChannelsArgumentMax",
          make_forward<along<MPSNNReduceFeatureChannelsArgumentMax>>),
      {"MPSNNReduceFeatureChannelsAndWeightsMean", refuses_two_sources, make_binary<weighted_mean>},
      {"MPSNNReduceFeatureChannelsAndWeightsSum", refuses_two_sources, make_binary<weighted_sum>},
      row("MPSNNGramMatrixCalculation", make_forward<gram_matrix>),
      {"MPSNNGramMatrixCalculationGradient", refuses_two_sources,
       make_gradient<gram_matrix, gram_gradient>},
  };
}

}  // namespace traingraph::metal
