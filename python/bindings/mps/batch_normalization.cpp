// Adds methods to the described batch normalization kernels and states, and binds data sources that
// are Python objects.
#include <pybind11/numpy.h>

#include "mps/data_source.h"

namespace traingraph::python {
namespace {

using mps::CNNBatchNormalization;
using mps::CNNBatchNormalizationDataSource;
using mps::CNNBatchNormalizationGradient;
using mps::CNNBatchNormalizationState;
using mps::CNNBatchNormalizationStatistics;
using mps::CNNBatchNormalizationStatisticsGradient;
using mps::CNNNormalizationGammaAndBetaState;
using mps::CNNNormalizationMeanAndVarianceState;

constexpr const char* kNewValues = "a state of new values, or None";

class BatchNormalizationSource final
    : public UserNormalizationSource<CNNBatchNormalizationDataSource> {
 public:
  using GammaAndBeta = std::shared_ptr<CNNNormalizationGammaAndBetaState>;
  using MeanAndVariance = std::shared_ptr<CNNNormalizationMeanAndVarianceState>;
  explicit BatchNormalizationSource(const py::object& object)
      : UserNormalizationSource(object, "MPSCNNBatchNormalizationDataSource") {}

  mps::SourceNumbers mean() const override { return channels("mean"); }
  mps::SourceNumbers variance() const override { return channels("variance"); }
  GammaAndBeta update_gamma_and_beta(mps::CommandBuffer& buffer, const BatchState& state) override {
    return new_state<GammaAndBeta>("update_gamma_and_beta", kNewValues, buffer.shared_from_this(),
                                   state);
  }
  MeanAndVariance update_mean_and_variance(mps::CommandBuffer& buffer,
                                           const BatchState& state) override {
    return new_state<MeanAndVariance>("update_mean_and_variance", kNewValues,
                                      buffer.shared_from_this(), state);
  }
  bool update_gamma_and_beta(const BatchState& state) override {
    return says_yes("update_gamma_and_beta_with_batch_normalization_state", state);
  }
  bool update_mean_and_variance(const BatchState& state) override {
    return says_yes("update_mean_and_variance_with_batch_normalization_state", state);
  }
  mps::CNNBatchNormalizationDataSourcePtr copy(const mps::Device& device) override {
    return copied(device, batch_normalization_source);
  }
};

constexpr const char* kState = "batch_normalization_state: MPSCNNBatchNormalizationState";

CNNBatchNormalizationState& state_of(const Arguments& arguments) {
  return *arguments.get<std::shared_ptr<CNNBatchNormalizationState>>("batch_normalization_state");
}

// Methods of the base class that Apple makes unavailable here.
template <typename Class>
void refuse_methods(Class& cls, const std::vector<const char*>& names, const char* reason) {
  const auto owner = py::cast<std::string>(cls.attr("__name__"));
  py::options options;
  options.disable_function_signatures();
  for (const char* name : names) {
    const auto* const text = new std::string("[" + owner + "." + name + "] " + reason);
    const std::string doc = std::string(name) +
                            "(self, *args: typing.Any, **kwargs: typing.Any) -> typing.NoReturn" +
                            "\n\nErrors: always; " + reason + ".";
    const Body body = [](py::detail::function_call& call) -> py::handle {
      throw Unsupported(*captured(call).get<const std::string*>());
    };
    cls.attr(name) =
        make_function({body, Capture(text), any_arguments(true), 1, cls, name, doc.c_str(), true});
  }
}

void bind_normalization(py::module_& module) {
  using Self = CNNBatchNormalization;
  auto cls = described<Self>(module, "MPSCNNBatchNormalization");
  constexpr const char* kText =
      "With a state by its statistics, without one by the kernel's own. Errors: a state without "
      "statistics.";
  def_encodes(cls, "MPSImage | None", "source_image",
              {std::string(kState) + ", destination_image", "destination_image", ""}, kText, kText,
              [](Self& self, const Encoding& e) {
                const auto sources = e.images("source_images");
                if (!e.arguments.given("batch_normalization_state")) {
                  return encode_into("destination_images", self, e, sources);
                }
                self.encode_batch(e.buffer(), sources, state_of(e.arguments),
                                  e.images("destination_images"));
                return py::object(py::none());
              });
}

void bind_statistics(py::module_& module) {
  using Self = CNNBatchNormalizationStatistics;
  auto cls = described<Self>(module, "MPSCNNBatchNormalizationStatistics");
  def_encode(cls, true, "None", "source_image", {kState},
             "Adds these images to the state's statistics. Errors: after the normalization.",
             [](Self& self, const Encoding& e) {
               self.encode_batch(e.buffer(), e.images("source_images"), state_of(e.arguments));
             });
  refuse_methods(cls, {"encode"},
                 "the statistics of one image alone: only encode_batch with a "
                 "batch_normalization_state");
}

void bind_gradients(py::module_& module) {
  using Statistics = CNNBatchNormalizationStatisticsGradient;
  auto statistics = described<Statistics>(module, "MPSCNNBatchNormalizationStatisticsGradient");
  def_encode(statistics, true, "None", "source_gradient, source_image", {kState},
             "Adds these images' share. Gradient: beta sum g, gamma sum g x^. Errors: more images "
             "than the statistics were made of; another fused neuron.",
             [](Statistics& self, const Encoding& e) {
               self.encode_batch(e.buffer(), e.images("source_gradients"),
                                 e.images("source_images"), state_of(e.arguments));
             });
  refuse_methods(statistics, {"encode"},
                 "the gradient of one image alone: only encode_batch with a "
                 "batch_normalization_state");

  using Self = CNNBatchNormalizationGradient;
  auto cls = described<Self>(module, "MPSCNNBatchNormalizationGradient");
  def_encodes(cls, "MPSImage | None", std::string("source_gradient, source_image, ") + kState,
              {"destination_gradient", ""}, "Errors: before the state's gradients are complete.",
              "Gradient: gamma / sqrt(variance + epsilon) (g - dbeta / M - x^ dgamma / M). Errors: "
              "before the state's gradients are complete.",
              [](Self& self, const Encoding& e) {
                return encode_into("destination_gradients", self, e, e.images("source_gradients"),
                                   e.images("source_images"), state_of(e.arguments));
              });
}

}  // namespace

mps::CNNBatchNormalizationDataSourcePtr batch_normalization_source(const py::object& object) {
  return to_source<mps::BatchNormalizationOfArrays>(
      object, [](const py::object& user) -> mps::CNNBatchNormalizationDataSourcePtr {
        return std::make_shared<BatchNormalizationSource>(user);
      });
}

py::object from_batch_normalization_source(const mps::CNNBatchNormalizationDataSourcePtr& source) {
  return from_source<BatchNormalizationSource, mps::BatchNormalizationOfArrays>(source);
}

void bind_mps_batch_normalization(py::module_& module) {
  bind_normalization(module);
  bind_statistics(module);
  bind_gradients(module);
}

}  // namespace traingraph::python
