#include "bindings.h"
#include "parameter.h"
#include "signature.h"

namespace traingraph::python {
namespace {

std::shared_ptr<BatchNormalization> make_layer(const Arguments& arguments) {
  const auto channels = arguments.get<std::int64_t>("feature_channel_count");
  const auto epsilon = arguments.get<float>("variance_epsilon");
  const auto momentum = arguments.get<float>("momentum");
  if (!arguments.given("mean")) {
    return std::make_shared<BatchNormalization>(channels, epsilon, momentum);
  }
  return std::make_shared<BatchNormalization>(
      channels, arguments.get<TensorPtr>("mean"), arguments.get<TensorPtr>("variance"),
      arguments.nullable<TensorPtr>("beta"), arguments.nullable<TensorPtr>("gamma"), epsilon,
      momentum);
}

}  // namespace

void bind_batch_normalization(py::module_& module) {
  using Self = BatchNormalization;
  auto cls = BoundClass<Self, Layer, std::shared_ptr<Self>>(
      module, "MLCBatchNormalizationLayer",
      "(x - mean) / sqrt(variance + epsilon) * gamma + beta per channel.");
  def_init(cls,
           {"feature_channel_count: int, mean: MLCTensor, variance: MLCTensor, "
            "beta: MLCTensor | None = None, gamma: MLCTensor | None = None, "
            "variance_epsilon: float = 1e-5, momentum: float = 0.99",
            "feature_channel_count: int, variance_epsilon: float = 1e-5, momentum: float = 0.99"},
           "Without mean and variance the layer makes its own parameters. Shapes: (N, C, …) to "
           "the same; parameters (1, C, 1, 1). Training uses the batch's biased statistics and "
           "moves the running ones: running = momentum * running + (1 - momentum) * batch. "
           "Gradient: reads the source and the batch's statistics.",
           make_layer);
  cls.def_property_readonly("feature_channel_count", &Self::channels, "C.");
  cls.def_property_readonly("mean", &Self::mean, "The running mean.");
  cls.def_property_readonly("variance", &Self::variance, "The running variance.");
  cls.def_property_readonly(
      "beta", [](Self& self) { return self.beta().tensor; }, "What is added, or None.");
  cls.def_property_readonly(
      "gamma", [](Self& self) { return self.gamma().tensor; }, "The factor, or None.");
  def_parameter(cls, "beta_parameter", &Self::beta);
  def_parameter(cls, "gamma_parameter", &Self::gamma);
  cls.def_property_readonly("variance_epsilon", &Self::variance_epsilon,
                            "What is added to the variance.");
  cls.def_property_readonly("momentum", &Self::momentum, "What the running statistics keep.");
}

}  // namespace traingraph::python
