// MPSNNReduce… along one axis, also with weights, and Gram matrices.
#include "backends/metal/named_kernels.h"

namespace traingraph::metal {
namespace {

// A rectangle of the source is cut out before.
template <class K>
Ref<MPSCNNKernel*> along(const ir::Node&, id<MTLDevice> gpu, const std::string&) {
  return Ref<MPSCNNKernel*>::own([[K alloc] initWithDevice:gpu]);
}
Ref<MPSCNNKernel*> sum_of_channels(const ir::Node& node, id<MTLDevice> gpu, const std::string&) {
  const auto kernel = Ref<MPSNNReduceFeatureChannelsSum*>::own(
      [[MPSNNReduceFeatureChannelsSum alloc] initWithDevice:gpu]);
  [kernel.get() setWeight:static_cast<float>(number_of(node, "weight"))];
  return Ref<MPSCNNKernel*>::keep(kernel.get());
}

Ref<MPSCNNBinaryKernel*> weighted_mean(const ir::Node&, id<MTLDevice> gpu) {
  return Ref<MPSCNNBinaryKernel*>::own(
      [[MPSNNReduceFeatureChannelsAndWeightsMean alloc] initWithDevice:gpu]);
}
Ref<MPSCNNBinaryKernel*> weighted_sum(const ir::Node& node, id<MTLDevice> gpu) {
  const bool by_count = number_of(node, "do_weighted_sum_by_non_zero_weights") != 0;
  return Ref<MPSCNNBinaryKernel*>::own([[MPSNNReduceFeatureChannelsAndWeightsSum alloc]
                     initWithDevice:gpu
      doWeightedSumByNonZeroWeights:by_count]);
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
