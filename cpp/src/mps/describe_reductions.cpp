#include "mps/kernel_description.h"

namespace traingraph::mps {
namespace {

template <class K>
void describe_source_rectangle(Describing<K>& kernel) {
  kernel.property("clip_rect_source", &K::clip_rect_source, &K::set_clip_rect_source);
}

void describe_along(KernelTable& table, const std::string& kind, NNReduceAxis axis,
                    NNReduction reduction) {
  Describing<NNReduceUnary> kernel(table, kind);
  describe_source_rectangle(kernel);
  if (axis == NNReduceAxis::kFeatureChannels && reduction == NNReduction::kSum) {
    kernel.property("weight", &NNReduceUnary::weight, &NNReduceUnary::set_weight);
  }
  kernel.made_by([=](const Device& device, const KernelArguments&) {
    return std::make_shared<NNReduceUnary>(device, axis, reduction);
  });
}

void describe_axis(KernelTable& table, const std::string& kind, NNReduceAxis axis) {
  describe_along(table, kind + "Sum", axis, NNReduction::kSum);
  describe_along(table, kind + "Mean", axis, NNReduction::kMean);
  describe_along(table, kind + "Min", axis, NNReduction::kMin);
  describe_along(table, kind + "Max", axis, NNReduction::kMax);
}

void describe_weighted(KernelTable& table) {
  using K = NNReduceBinary;
  constexpr const char* kByNonZero = "do_weighted_sum_by_non_zero_weights";
  const auto rectangles = [](Describing<K>& kernel) {
    kernel
        .property("primary_source_clip_rect", &K::primary_source_clip_rect,
                  &K::set_primary_source_clip_rect)
        .property("secondary_source_clip_rect", &K::secondary_source_clip_rect,
                  &K::set_secondary_source_clip_rect);
  };
  Describing<K> mean(table, "MPSNNReduceFeatureChannelsAndWeightsMean");
  rectangles(mean);
  mean.made_by([](const Device& device, const KernelArguments&) {
    return std::make_shared<K>(device, NNWeightedReduction::kMean);
  });
  Describing<K> sum(table, "MPSNNReduceFeatureChannelsAndWeightsSum");
  rectangles(sum);
  sum.argument(kByNonZero,
               [](const K& kernel) {
                 return kernel.reduction() == NNWeightedReduction::kSumByNonZeroWeights;
               })
      .made_by([](const Device& device, const KernelArguments& given) {
        return std::make_shared<K>(device, given.get<bool>(kByNonZero)
                                               ? NNWeightedReduction::kSumByNonZeroWeights
                                               : NNWeightedReduction::kSum);
      });
}

template <class K>
void describe_spatial_mean(KernelTable& table, const char* kind) {
  Describing<K> kernel(table, kind);
  describe_source_rectangle(kernel);
  kernel.template made_of<>();
}

template <class K>
void describe_gram(KernelTable& table, const char* kind) {
  Describing<K>(table, kind).argument("alpha", &K::alpha).template made_of<float>();
}

}  // namespace

void describe_reductions(KernelTable& table) {
  constexpr NNReduceAxis kChannels = NNReduceAxis::kFeatureChannels;
  describe_axis(table, "MPSNNReduceRow", NNReduceAxis::kRow);
  describe_axis(table, "MPSNNReduceColumn", NNReduceAxis::kColumn);
  describe_axis(table, "MPSNNReduceFeatureChannels", kChannels);
  describe_along(table, "MPSNNReduceFeatureChannelsArgumentMin", kChannels,
                 NNReduction::kArgumentMin);
  describe_along(table, "MPSNNReduceFeatureChannelsArgumentMax", kChannels,
                 NNReduction::kArgumentMax);
  describe_weighted(table);
  describe_spatial_mean<NNReductionSpatialMean>(table, "MPSNNReductionSpatialMean");
  describe_spatial_mean<NNReductionSpatialMeanGradient>(table, "MPSNNReductionSpatialMeanGradient");
  describe_gram<NNGramMatrixCalculation>(table, "MPSNNGramMatrixCalculation");
  describe_gram<NNGramMatrixCalculationGradient>(table, "MPSNNGramMatrixCalculationGradient");
}

}  // namespace traingraph::mps
