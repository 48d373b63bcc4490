#include "mps_coding.h"
#include "mps_encoding.h"

namespace traingraph::python {
namespace {

using mps::CNNBinaryKernel;
using mps::CNNGradientKernel;
using mps::CNNKernel;
using mps::NNGramMatrixCalculation;
using mps::NNGramMatrixCalculationGradient;
using mps::NNReduceAxis;
using mps::NNReduceBinary;
using mps::NNReduceUnary;
using mps::NNReduction;
using mps::NNWeightedReduction;

// One Python class each for what is one class of the core with an axis and a function.
template <NNReduceAxis kAxis, NNReduction kReduction>
struct ReduceOf final : NNReduceUnary {
  using Core = NNReduceUnary;
  explicit ReduceOf(const Core& core) : Core(core) {}
  explicit ReduceOf(const mps::Device& device) : NNReduceUnary(device, kAxis, kReduction) {}
};
template <bool kMean>
struct ReduceBinaryOf final : NNReduceBinary {
  using Core = NNReduceBinary;
  explicit ReduceBinaryOf(const Core& core) : Core(core) {}
  using NNReduceBinary::NNReduceBinary;
};

// --- along one axis ------------------------------------------------------------------------------

template <NNReduceAxis kAxis, NNReduction kReduction>
auto bind_reduce(py::module_& module, const std::string& name, const std::string& doc) {
  return bind_plain<ReduceOf<kAxis, kReduction>, NNReduceUnary>(
      module, name.c_str(), doc.c_str(), "The reduced axis stays with one element.");
}

template <NNReduceAxis kAxis>
auto bind_along(py::module_& module, const std::string& name, const std::string& where) {
  bind_reduce<kAxis, NNReduction::kMean>(module, name + "Mean", "The mean " + where + ".");
  bind_reduce<kAxis, NNReduction::kMin>(module, name + "Min",
                                        "The smallest element " + where + ".");
  bind_reduce<kAxis, NNReduction::kMax>(module, name + "Max", "The largest element " + where + ".");
  return bind_reduce<kAxis, NNReduction::kSum>(module, name + "Sum", "The sum " + where + ".");
}

void bind_unary(py::module_& module) {
  auto base = BoundClass<NNReduceUnary, CNNKernel, std::shared_ptr<NNReduceUnary>>(
      module, "MPSNNReduceUnary", "Joins the elements along one axis.");
  def_region(base, "clip_rect_source", &NNReduceUnary::clip_rect_source,
             &NNReduceUnary::set_clip_rect_source, kSourceRectangle);
  bind_along<NNReduceAxis::kRow>(module, "MPSNNReduceRow", "of each row");
  bind_along<NNReduceAxis::kColumn>(module, "MPSNNReduceColumn", "of each column");
  auto sum = bind_along<NNReduceAxis::kFeatureChannels>(module, "MPSNNReduceFeatureChannels",
                                                        "over the channels of each pixel");
  sum.def_property(
      "weight", [](const NNReduceUnary& self) { return self.weight(); },
      [](NNReduceUnary& self, float value) { self.set_weight(value); }, "A factor.");
  constexpr NNReduceAxis kChannels = NNReduceAxis::kFeatureChannels;
  bind_reduce<kChannels, NNReduction::kArgumentMin>(
      module, "MPSNNReduceFeatureChannelsArgumentMin",
      "The number of each pixel's first smallest channel, counted from the first that is read.");
  bind_reduce<kChannels, NNReduction::kArgumentMax>(
      module, "MPSNNReduceFeatureChannelsArgumentMax",
      "The number of each pixel's first largest channel, counted from the first that is read.");
}

void bind_spatial_mean(py::module_& module) {
  using Mean = mps::NNReductionSpatialMean;
  using Gradient = mps::NNReductionSpatialMeanGradient;
  auto mean = bind_plain<Mean, CNNKernel>(
      module, "MPSNNReductionSpatialMean", "The mean over rows and columns.",
      "Not a class of Apple's, whose graphs chain a row's and a column's mean.");
  def_region(mean, "clip_rect_source", &Mean::clip_rect_source, &Mean::set_clip_rect_source,
             kSourceRectangle);
  auto gradient = bind_plain<Gradient, CNNGradientKernel>(
      module, "MPSNNReductionSpatialMeanGradient",
      "dx = dy / (rows columns) where the forward kernel has read.",
      "Not a class of Apple's, whose graphs alone have this gradient.");
  def_region(gradient, "clip_rect_source", &Gradient::clip_rect_source,
             &Gradient::set_clip_rect_source,
             "MTLRegion of the forward source that was read; the form that returns an image takes "
             "it from the state.");
}

// --- with weights --------------------------------------------------------------------------------

template <bool kMean, typename Make>
auto bind_weighted(py::module_& module, const char* name, std::vector<std::string> forms,
                   const char* doc, Make make) {
  using T = ReduceBinaryOf<kMean>;
  auto cls = BoundClass<T, NNReduceBinary, std::shared_ptr<T>>(module, name, doc);
  def_kernel(cls, std::move(forms), "Shapes: two (N, C, H, W) to (N, 1, H, W). No gradient.",
             [make](const Arguments& arguments) {
               return std::make_shared<T>(to_mps_device(arguments["device"]), make(arguments));
             });
  return cls;
}

void bind_binary_reductions(py::module_& module) {
  using Self = NNReduceBinary;
  auto base = BoundClass<Self, CNNBinaryKernel, std::shared_ptr<Self>>(
      module, "MPSNNReduceBinary", "Joins the products of an image and weights of its size.");
  def_region(base, "primary_source_clip_rect", &Self::primary_source_clip_rect,
             &Self::set_primary_source_clip_rect, kSourceRectangle);
  def_region(base, "secondary_source_clip_rect", &Self::secondary_source_clip_rect,
             &Self::set_secondary_source_clip_rect, kSourceRectangle);
  bind_weighted<true>(module, "MPSNNReduceFeatureChannelsAndWeightsMean", {kDevice},
                      "The mean of x w over the channels: their sum by the number of channels.",
                      [](const Arguments&) { return NNWeightedReduction::kMean; });
  auto sum = bind_weighted<false>(
      module, "MPSNNReduceFeatureChannelsAndWeightsSum",
      {std::string(kDevice) + ", do_weighted_sum_by_non_zero_weights: bool = False"},
      "The sum of x w over the channels, or that by the number of weights that are not 0.",
      [](const Arguments& arguments) {
        return arguments.get<bool>("do_weighted_sum_by_non_zero_weights")
                   ? NNWeightedReduction::kSumByNonZeroWeights
                   : NNWeightedReduction::kSum;
      });
  sum.def_property_readonly(
      "do_weighted_sum_by_non_zero_weights",
      [](const Self& self) {
        return self.reduction() == NNWeightedReduction::kSumByNonZeroWeights;
      },
      "Whether the sum is divided by the number of weights that are not 0, at least 1.");
}

// --- Gram matrices -------------------------------------------------------------------------------

template <typename T, typename Base>
void bind_gram(py::module_& module, const char* name, const char* doc, const char* detail) {
  auto cls = BoundClass<T, Base, std::shared_ptr<T>>(module, name, doc);
  def_kernel(cls, {std::string(kDevice) + ", alpha: float = 1.0"}, detail,
             [](const Arguments& arguments) {
               return std::make_shared<T>(to_mps_device(arguments["device"]),
                                          arguments.get<float>("alpha"));
             });
  cls.def_property("alpha", &T::alpha, &T::set_alpha, "A factor.");
}

void bind_grams(py::module_& module) {
  bind_gram<NNGramMatrixCalculation, CNNKernel>(module, "MPSNNGramMatrixCalculation",
                                                "y[f, c] = alpha sum of x_f x_c over the pixels.",
                                                "Shapes: (N, C, H, W) to (N, C, 1, C).");
  bind_gram<NNGramMatrixCalculationGradient, CNNGradientKernel>(
      module, "MPSNNGramMatrixCalculationGradient",
      "dx_f = alpha sum over c of (dy[f, c] + dy[c, f]) x_c.",
      "The form that returns an image takes alpha from the state.");
}

}  // namespace

void bind_mps_reductions(py::module_& module) {
  bind_unary(module);
  bind_spatial_mean(module);
  bind_binary_reductions(module);
  bind_grams(module);
}

}  // namespace traingraph::python
