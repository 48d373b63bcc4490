// What convolution descriptors are told beside their properties.
#include "convert/data.h"
#include "mps/mps_bindings.h"

namespace traingraph::python {
namespace {

using mps::CNNConvolutionDescriptor;

// Numbers per output channel; where none are given, the same one for each.
std::vector<float> channels_of(const CNNConvolutionDescriptor& self, const Arguments& arguments,
                               const char* name, float otherwise) {
  const auto count = static_cast<std::size_t>(self.output_feature_channels);
  if (arguments[name].is_none()) return std::vector<float>(count, otherwise);
  std::vector<py::object> keeper;
  const auto* numbers = static_cast<const float*>(
      elements_of(arguments[name], DataType::kFloat32, self.output_feature_channels,
                  "MPSCNNConvolutionDescriptor", name, keeper));
  return {numbers, numbers + count};
}

}  // namespace

void bind_mps_convolution_descriptor(py::module_& module) {
  using Self = CNNConvolutionDescriptor;
  auto cls = described<Self>(module, "MPSCNNConvolutionDescriptor");
  const Body yes = [](py::detail::function_call&) { return py::bool_(true).release(); };
  const char* const name = "supports_secure_coding";
  const py::handle property(
      reinterpret_cast<PyObject*>(py::detail::get_internals().static_property_type));
  cls.attr(name) =
      property(make_function({yes, Capture(0), {"({object}) -> bool", {}}, 1, cls, name}),
               py::none(), py::none(), "True.");
  def_method(cls, "set_batch_normalization_parameters_for_inference", "None",
             {"with_mean: ArrayLike, variance: ArrayLike, gamma: ArrayLike | None = None, "
              "beta: ArrayLike | None = None, epsilon: float = 0.0"},
             "A batch normalization between convolution and neuron, which becomes part of weights "
             "and biases whenever they are loaded from a data source; those of a state are taken "
             "as they are. Shapes: (O). Types: float32.",
             [](Self& self, const Arguments& a) {
               self.batch_normalization =
                   std::make_shared<mps::InferenceNormalization>(mps::InferenceNormalization{
                       channels_of(self, a, "with_mean", 0), channels_of(self, a, "variance", 1),
                       channels_of(self, a, "gamma", 1), channels_of(self, a, "beta", 0),
                       a.get<float>("epsilon")});
             });
  def_method(cls, "set_neuron_type", "None",
             {"neuron_type: MPSCNNNeuronType | str, parameter_a: float, parameter_b: float"},
             "Fuses this neuron.", [](Self& self, const Arguments& a) {
               mps::NeuronDescriptor neuron;
               neuron.type = a.get<mps::NeuronType>("neuron_type");
               neuron.a = a.get<float>("parameter_a");
               neuron.b = a.get<float>("parameter_b");
               self.fused_neuron_descriptor = neuron;
             });
  def_method(cls, "set_neuron_to_prelu", "None", {"with_parameters_a: ArrayLike"},
             "Fuses a PReLU with one slope per output channel. Types: float32.",
             [](Self& self, const Arguments& a) {
               mps::NeuronDescriptor neuron;
               neuron.type = mps::NeuronType::kPReLU;
               neuron.data = channels_of(self, a, "with_parameters_a", 0);
               self.fused_neuron_descriptor = neuron;
             });
}

}  // namespace traingraph::python
