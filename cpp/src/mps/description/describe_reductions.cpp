// Reductions along an axis or with weights, and Gram matrices.
#include <traingraph/mps/reduction.h>

#include "mps/description/describe_kernel.h"

namespace traingraph::mps {
namespace {

constexpr const char* kSourceRectangle =
    "MTLRegion of the source that is read, as far as it is there.";

// --- along one axis ------------------------------------------------------------------------------

void describe_along(Classes& classes, const std::string& name, const std::string& summary,
                    NNReduceAxis axis, NNReduction reduction) {
  using K = NNReduceUnary;
  auto described = describe_kernel<K, K>(name, summary);
  if (axis == NNReduceAxis::kFeatureChannels && reduction == NNReduction::kSum) {
    described.settable("weight", &K::weight, &K::set_weight, "A factor.");
  }
  described.made_by("Shapes: the reduced axis stays with one element.", [=](const Given& given) {
    return std::make_shared<K>(given.get<Device>("device"), axis, reduction);
  });
  classes.push_back(described);
}

void describe_axis(Classes& classes, const std::string& name, const std::string& where,
                   NNReduceAxis axis) {
  describe_along(classes, name + "Sum", "The sum " + where + ".", axis, NNReduction::kSum);
  describe_along(classes, name + "Mean", "The mean " + where + ".", axis, NNReduction::kMean);
  describe_along(classes, name + "Min", "The smallest element " + where + ".", axis,
                 NNReduction::kMin);
  describe_along(classes, name + "Max", "The largest element " + where + ".", axis,
                 NNReduction::kMax);
}

void describe_unary(Classes& classes) {
  using K = NNReduceUnary;
  constexpr NNReduceAxis kChannels = NNReduceAxis::kFeatureChannels;
  classes.push_back(
      Describing<K, Kernel, CNNKernel>("MPSNNReduceUnary", "Joins the elements along one axis.")
          .settable("clip_rect_source", &K::clip_rect_source, &K::set_clip_rect_source,
                    kSourceRectangle));
  describe_axis(classes, "MPSNNReduceRow", "of each row", NNReduceAxis::kRow);
  describe_axis(classes, "MPSNNReduceColumn", "of each column", NNReduceAxis::kColumn);
  describe_axis(classes, "MPSNNReduceFeatureChannels", "over the channels of each pixel",
                kChannels);
  describe_along(
      classes, "MPSNNReduceFeatureChannelsArgumentMin",
      "The number of each pixel's first smallest channel, counted from the first that is read.",
      kChannels, NNReduction::kArgumentMin);
  describe_along(
      classes, "MPSNNReduceFeatureChannelsArgumentMax",
      "The number of each pixel's first largest channel, counted from the first that is read.",
      kChannels, NNReduction::kArgumentMax);
}

void describe_spatial_mean(Classes& classes) {
  using Mean = NNReductionSpatialMean;
  using Gradient = NNReductionSpatialMeanGradient;
  classes.push_back(
      describe_kernel<Mean, CNNKernel>("MPSNNReductionSpatialMean",
                                       "The mean over rows and columns.")
          .settable("clip_rect_source", &Mean::clip_rect_source, &Mean::set_clip_rect_source,
                    kSourceRectangle)
          .made_of<Device>(
              "Shapes: (N, C, H, W) to (N, C, 1, 1). Not a class of Apple's, whose graphs chain a "
              "row's and a column's mean."));
  classes.push_back(
      describe_kernel<Gradient, CNNGradientKernel>(
          "MPSNNReductionSpatialMeanGradient",
          "dx = dy / (rows columns) where the forward kernel has read.")
          .settable("clip_rect_source", &Gradient::clip_rect_source,
                    &Gradient::set_clip_rect_source,
                    "MTLRegion of the forward source that was read; the form that returns an image "
                    "takes it from the state.")
          .made_of<Device>("Not a class of Apple's, whose graphs alone have this gradient."));
}

// --- with weights --------------------------------------------------------------------------------

void describe_weighted(Classes& classes) {
  using K = NNReduceBinary;
  constexpr const char* kShapes = "Shapes: two (N, C, H, W) to (N, 1, H, W). No gradient.";
  constexpr const char* kByNonZero = "do_weighted_sum_by_non_zero_weights";
  classes.push_back(
      Describing<K, Kernel, CNNBinaryKernel>("MPSNNReduceBinary",
                                             "Joins the products of an image and weights of its "
                                             "size.")
          .settable("primary_source_clip_rect", &K::primary_source_clip_rect,
                    &K::set_primary_source_clip_rect, kSourceRectangle)
          .settable("secondary_source_clip_rect", &K::secondary_source_clip_rect,
                    &K::set_secondary_source_clip_rect, kSourceRectangle));
  classes.push_back(
      describe_kernel<K, K>("MPSNNReduceFeatureChannelsAndWeightsMean",
                            "The mean of x w over the channels: their sum by the number of "
                            "channels.")
          .made_by(kShapes, [](const Given& given) {
            return std::make_shared<K>(given.get<Device>("device"), NNWeightedReduction::kMean);
          }));
  classes.push_back(
      describe_kernel<K, K>(
          "MPSNNReduceFeatureChannelsAndWeightsSum",
          "The sum of x w over the channels, or that by the number of weights that are not 0.")
          .argument(
              kByNonZero,
              [](const K& kernel) {
                return kernel.reduction() == NNWeightedReduction::kSumByNonZeroWeights;
              },
              "Whether the sum is divided by the number of weights that are not 0, at least 1.",
              false)
          .made_by(kShapes, [](const Given& given) {
            return std::make_shared<K>(given.get<Device>("device"),
                                       given.get<bool>(kByNonZero)
                                           ? NNWeightedReduction::kSumByNonZeroWeights
                                           : NNWeightedReduction::kSum);
          }));
}

// --- Gram matrices -------------------------------------------------------------------------------

template <class K, class Parent>
ClassDescription gram(const char* name, const char* summary, const char* text) {
  return describe_kernel<K, Parent>(name, summary)
      .kept_argument("alpha", &K::alpha, "A factor.", 1.0f)
      .settable("alpha", &K::alpha, &K::set_alpha, "A factor.")
      .template made_of<Device, float>(text);
}

}  // namespace

void describe_reductions(Classes& classes) {
  describe_unary(classes);
  describe_spatial_mean(classes);
  describe_weighted(classes);
  classes.push_back(gram<NNGramMatrixCalculation, CNNKernel>(
      "MPSNNGramMatrixCalculation", "y[f, c] = alpha sum of x_f x_c over the pixels.",
      "Shapes: (N, C, H, W) to (N, C, 1, C)."));
  classes.push_back(gram<NNGramMatrixCalculationGradient, CNNGradientKernel>(
      "MPSNNGramMatrixCalculationGradient", "dx_f = alpha sum over c of (dy[f, c] + dy[c, f]) x_c.",
      "The form that returns an image takes alpha from the state."));
}

}  // namespace traingraph::mps
