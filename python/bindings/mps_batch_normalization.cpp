#include <pybind11/numpy.h>

#include "mps_data_source.h"

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

class BatchNormalizationSource final
    : public UserNormalizationSource<CNNBatchNormalizationDataSource> {
 public:
  using GammaAndBeta = std::shared_ptr<CNNNormalizationGammaAndBetaState>;
  using MeanAndVariance = std::shared_ptr<CNNNormalizationMeanAndVarianceState>;
  explicit BatchNormalizationSource(const py::object& object)
      : UserNormalizationSource(object, "MPSCNNBatchNormalizationDataSource") {}

  const float* mean() const override { return channels("mean"); }
  const float* variance() const override { return channels("variance"); }
  GammaAndBeta update_gamma_and_beta(mps::CommandBuffer& buffer, const BatchState& state) override {
    return updated<GammaAndBeta>("update_gamma_and_beta", buffer, state);
  }
  MeanAndVariance update_mean_and_variance(mps::CommandBuffer& buffer,
                                           const BatchState& state) override {
    return updated<MeanAndVariance>("update_mean_and_variance", buffer, state);
  }
  bool update_gamma_and_beta(const BatchState& state) override {
    return has_updated("update_gamma_and_beta_with_batch_normalization_state", state);
  }
  bool update_mean_and_variance(const BatchState& state) override {
    return has_updated("update_mean_and_variance_with_batch_normalization_state", state);
  }
  mps::CNNBatchNormalizationDataSourcePtr copy(const mps::Device& device) override {
    return copied(device, batch_normalization_source);
  }

 private:
  template <class Values>
  Values updated(const char* name, mps::CommandBuffer& buffer, const BatchState& state) {
    const HeldGil held;
    return new_state<Values>(name, "a state of new values, or None", buffer.shared_from_this(),
                             state);
  }
  bool has_updated(const char* name, const BatchState& state) {
    const HeldGil held;
    return says_yes(name, state);
  }
};

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
    const std::string text = "[" + owner + "." + name + "] " + reason;
    const std::string doc = std::string(name) +
                            "(self, *args: typing.Any, **kwargs: typing.Any) -> typing.NoReturn" +
                            "\n\nErrors: always; " + reason + ".";
    cls.def(
        name,
        [text](const typename Class::type&, const py::args&, const py::kwargs&) -> py::object {
          throw Unsupported(text);
        },
        doc.c_str());
  }
}

template <typename Class>
void def_temporary(Class& cls) {
  using Self = typename Class::type;
  def_factory(cls, "temporary_state", py::cast<std::string>(cls.attr("__name__")).c_str(),
              {"command_buffer: MTLCommandBuffer, number_of_feature_channels: int"},
              "One that lives on the command buffer, with a read count of 1.",
              [](const Arguments& a) {
                return std::make_shared<Self>(command_buffer(a),
                                              a.get<std::int64_t>("number_of_feature_channels"));
              });
}

void bind_batch_states(py::module_& module) {
  using Self = CNNBatchNormalizationState;
  auto cls = BoundClass<Self, mps::GradientState, std::shared_ptr<Self>>(
      module, "MPSCNNBatchNormalizationState",
      "Statistics and gradients of one batch; buffers of one number per channel.");
  cls.def("reset", &Self::reset, "Forgets what was accumulated.");
  cls.def("gamma", &Self::gamma, "The kernel's factors.");
  cls.def("beta", &Self::beta, "The kernel's terms.");
  cls.def("mean", &Self::mean, "Of the batch.");
  cls.def("variance", &Self::variance, "Of the batch, biased.");
  cls.def("gradient_for_gamma", &Self::gradient_for_gamma,
          "Sum of g x^, or None before the statistics gradient was encoded.");
  cls.def("gradient_for_beta", &Self::gradient_for_beta,
          "Sum of g, or None before the statistics gradient was encoded.");
  cls.def_property_readonly(
      "batch_normalization",
      [](const Self& self) {
        return std::const_pointer_cast<CNNBatchNormalization>(self.batch_normalization());
      },
      "The forward kernel.");

  using Buffer = std::shared_ptr<mps::Buffer>;
  using Gamma = CNNNormalizationGammaAndBetaState;
  auto gamma = BoundClass<Gamma, mps::State, std::shared_ptr<Gamma>>(
      module, "MPSCNNNormalizationGammaAndBetaState", "Factors and terms per channel.");
  def_init(gamma, {"gamma: MTLBuffer, beta: MTLBuffer"}, "Types: float32.",
           [](const Arguments& arguments) {
             return std::make_shared<Gamma>(arguments.get<Buffer>("gamma"),
                                            arguments.get<Buffer>("beta"));
           });
  def_temporary(gamma);
  gamma.def_property_readonly("gamma", &Gamma::gamma, "(C).");
  gamma.def_property_readonly("beta", &Gamma::beta, "(C).");
  using Mean = CNNNormalizationMeanAndVarianceState;
  auto mean = BoundClass<Mean, mps::State, std::shared_ptr<Mean>>(
      module, "MPSCNNNormalizationMeanAndVarianceState", "Statistics per channel.");
  def_init(mean, {"mean: MTLBuffer, variance: MTLBuffer"}, "Types: float32.",
           [](const Arguments& arguments) {
             return std::make_shared<Mean>(arguments.get<Buffer>("mean"),
                                           arguments.get<Buffer>("variance"));
           });
  def_temporary(mean);
  mean.def_property_readonly("mean", &Mean::mean, "(C).");
  mean.def_property_readonly("variance", &Mean::variance, "(C).");
}

void bind_normalization(py::module_& module) {
  using Self = CNNBatchNormalization;
  auto cls = described<Self>(module, "MPSCNNBatchNormalization");
  const auto encode = [](Self& self, const Arguments& arguments, bool batch) -> py::object {
    const auto sources = images(arguments, batch ? "source_images" : "source_image", batch);
    const char* const destination = batch ? "destination_images" : "destination_image";
    mps::CommandBuffer& buffer = command_buffer(arguments);
    if (!arguments.given(destination)) {
      return result_images(self.encode_batch(buffer, sources), batch);
    }
    const auto destinations = images(arguments, destination, batch);
    if (arguments.given("batch_normalization_state")) {
      self.encode_batch(buffer, sources, state_of(arguments), destinations);
    } else {
      self.encode_batch(buffer, sources, destinations);
    }
    return py::none();
  };
  def_method(cls, "encode", "MPSImage | None",
             {"command_buffer: MTLCommandBuffer, source_image: MPSImage, "
              "batch_normalization_state: MPSCNNBatchNormalizationState, "
              "destination_image: MPSImage",
              "command_buffer: MTLCommandBuffer, source_image: MPSImage, "
              "destination_image: MPSImage",
              "command_buffer: MTLCommandBuffer, source_image: MPSImage"},
             "With a state by its statistics, without one by the kernel's own. Errors: a state "
             "without statistics.",
             [encode](Self& self, const Arguments& a) { return encode(self, a, false); });
  def_method(
      cls, "encode_batch", "collections.abc.Sequence[MPSImage] | None",
      {"command_buffer: MTLCommandBuffer, source_images: collections.abc.Sequence[MPSImage], "
       "batch_normalization_state: MPSCNNBatchNormalizationState, "
       "destination_images: collections.abc.Sequence[MPSImage]",
       "command_buffer: MTLCommandBuffer, source_images: collections.abc.Sequence[MPSImage], "
       "destination_images: collections.abc.Sequence[MPSImage]",
       "command_buffer: MTLCommandBuffer, source_images: collections.abc.Sequence[MPSImage]"},
      "With a state by its statistics, without one by the kernel's own. Errors: a state "
      "without statistics.",
      [encode](Self& self, const Arguments& a) { return encode(self, a, true); });
  def_gamma_and_beta(cls);
  def_method(cls, "reload_data_source", "None", {"data_source: typing.Any"},
             "Loads another data source of as many channels, when all runs that were committed are "
             "done; deprecated by Apple.",
             [](Self& self, const Arguments& a) {
               idle(self.device());
               self.reload(batch_normalization_source(a["data_source"]));
             });
  def_reload<&Self::reload_mean_and_variance_from_data_source>(
      cls, "reload_mean_and_variance_from_data_source");
  def_reload_by_state<CNNNormalizationMeanAndVarianceState, &Self::reload_mean_and_variance>(
      cls, "reload_mean_and_variance", "mean_and_variance_state",
      "MPSCNNNormalizationMeanAndVarianceState",
      "Encodes the replacement of mean and variance by the state's.");
}

void bind_statistics(py::module_& module) {
  using Self = CNNBatchNormalizationStatistics;
  auto cls = described<Self>(module, "MPSCNNBatchNormalizationStatistics");
  def_method(
      cls, "encode_batch", "None",
      {"command_buffer: MTLCommandBuffer, source_images: collections.abc.Sequence[MPSImage], "
       "batch_normalization_state: MPSCNNBatchNormalizationState"},
      "Adds these images to the state's statistics. Errors: after the normalization.",
      [](Self& self, const Arguments& arguments) {
        self.encode_batch(command_buffer(arguments), images(arguments, "source_images", true),
                          state_of(arguments));
      });
  refuse_methods(cls, {"encode"},
                 "the statistics of one image alone: only encode_batch with a "
                 "batch_normalization_state");
}

void bind_gradients(py::module_& module) {
  using Statistics = CNNBatchNormalizationStatisticsGradient;
  auto statistics = described<Statistics>(module, "MPSCNNBatchNormalizationStatisticsGradient");
  def_method(
      statistics, "encode_batch", "None",
      {"command_buffer: MTLCommandBuffer, source_gradients: collections.abc.Sequence[MPSImage], "
       "source_images: collections.abc.Sequence[MPSImage], "
       "batch_normalization_state: MPSCNNBatchNormalizationState"},
      "Adds these images' share. Gradient: beta sum g, gamma sum g x^. Errors: more images "
      "than the statistics were made of; another fused neuron.",
      [](Statistics& self, const Arguments& arguments) {
        self.encode_batch(command_buffer(arguments), images(arguments, "source_gradients", true),
                          images(arguments, "source_images", true), state_of(arguments));
      });
  refuse_methods(statistics, {"encode"},
                 "the gradient of one image alone: only encode_batch with a "
                 "batch_normalization_state");
  statistics.def("append_batch_barrier", &Statistics::append_batch_barrier, "True.");

  using Self = CNNBatchNormalizationGradient;
  auto cls = described<Self>(module, "MPSCNNBatchNormalizationGradient");
  const auto encode = [](Self& self, const Arguments& arguments, bool batch) -> py::object {
    const auto gradients = images(arguments, batch ? "source_gradients" : "source_gradient", batch);
    const auto sources = images(arguments, batch ? "source_images" : "source_image", batch);
    const char* const destination = batch ? "destination_gradients" : "destination_gradient";
    if (arguments.given(destination)) {
      self.encode_batch(command_buffer(arguments), gradients, sources, state_of(arguments),
                        images(arguments, destination, batch));
      return py::none();
    }
    return result_images(
        self.encode_batch(command_buffer(arguments), gradients, sources, state_of(arguments)),
        batch);
  };
  def_method(cls, "encode", "MPSImage | None",
             {"command_buffer: MTLCommandBuffer, source_gradient: MPSImage, "
              "source_image: MPSImage, batch_normalization_state: MPSCNNBatchNormalizationState, "
              "destination_gradient: MPSImage",
              "command_buffer: MTLCommandBuffer, source_gradient: MPSImage, "
              "source_image: MPSImage, batch_normalization_state: MPSCNNBatchNormalizationState"},
             "Errors: before the state's gradients are complete.",
             [encode](Self& self, const Arguments& a) { return encode(self, a, false); });
  def_method(
      cls, "encode_batch", "collections.abc.Sequence[MPSImage] | None",
      {"command_buffer: MTLCommandBuffer, source_gradients: collections.abc.Sequence[MPSImage], "
       "source_images: collections.abc.Sequence[MPSImage], "
       "batch_normalization_state: MPSCNNBatchNormalizationState, "
       "destination_gradients: collections.abc.Sequence[MPSImage]",
       "command_buffer: MTLCommandBuffer, source_gradients: collections.abc.Sequence[MPSImage], "
       "source_images: collections.abc.Sequence[MPSImage], "
       "batch_normalization_state: MPSCNNBatchNormalizationState"},
      "Gradient: gamma / sqrt(variance + epsilon) (g - dbeta / M - x^ dgamma / M). Errors: "
      "before the state's gradients are complete.",
      [encode](Self& self, const Arguments& a) { return encode(self, a, true); });
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
  bind_batch_states(module);
  bind_statistics(module);
  bind_gradients(module);
}

}  // namespace traingraph::python
