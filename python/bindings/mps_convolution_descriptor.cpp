#include <tuple>

#include <pybind11/stl.h>

#include "data.h"
#include "mps_data_source.h"

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

// The neuron's deprecated forms.
void def_neuron(BoundClass<CNNConvolutionDescriptor>& cls) {
  using Self = CNNConvolutionDescriptor;
  cls.def(
      "neuron_type", [](const Self& self) { return self.fused_neuron_descriptor.type; },
      "Of the fused neuron.");
  cls.def(
      "neuron_parameter_a", [](const Self& self) { return self.fused_neuron_descriptor.a; },
      "Of the fused neuron.");
  cls.def(
      "neuron_parameter_b", [](const Self& self) { return self.fused_neuron_descriptor.b; },
      "Of the fused neuron.");
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

// What each class of descriptors has by itself, because it returns its own class.
template <typename Class>
void def_descriptor(Class& cls, const char* name) {
  using Self = typename Class::type;
  def_factory(cls, "cnn_convolution_descriptor", name,
              {"with_kernel_width: int, kernel_height: int, input_feature_channels: int, "
               "output_feature_channels: int",
               "with_kernel_width: int, kernel_height: int, input_feature_channels: int, "
               "output_feature_channels: int, neuron_filter: MPSCNNNeuron | None"},
              "Strides, dilations and groups of 1; the neuron of a kernel, a deprecated form, or "
              "none.",
              [](const Arguments& arguments) {
                Self d;
                d.kernel_width = arguments.get<std::int64_t>("with_kernel_width");
                d.kernel_height = arguments.get<std::int64_t>("kernel_height");
                d.input_feature_channels = arguments.get<std::int64_t>("input_feature_channels");
                d.output_feature_channels = arguments.get<std::int64_t>("output_feature_channels");
                const auto neuron =
                    arguments.nullable<std::shared_ptr<mps::CNNNeuron>>("neuron_filter");
                if (neuron != nullptr) d.fused_neuron_descriptor = neuron->descriptor();
                return d;
              });
  def_init(cls, {"coder: Any"}, "What was encoded. Errors: something else was.",
           [name](const Arguments& arguments) {
             Self decoded;
             static_cast<CNNConvolutionDescriptor&>(decoded) =
                 mps::convolution_descriptor_with_coder(name, PythonCoder(arguments["coder"]));
             return decoded;
           });
  cls.def(
      "encode_with_coder",
      [](const Self& self, const py::object& object) {
        PythonCoder coder(object);
        const mps::CodedValue fields = mps::coded(self);
        for (const auto& [key, value] : *fields.as<mps::CodedValue::Entries>()) {
          coder.encode(value, key);
        }
      },
      py::arg("coder"), "Writes all properties into a coder, such as NSKeyedArchiver.");
  def_copy(cls, [](const Self& self) { return self; });
  def_coded(cls);
}

}  // namespace

void bind_mps_convolution_descriptor(py::module_& module) {
  using Self = CNNConvolutionDescriptor;
  auto cls = BoundClass<Self>(module, "MPSCNNConvolutionDescriptor", "The sizes of a convolution.");
  def_descriptor(cls, "MPSCNNConvolutionDescriptor");
  cls.def_property_readonly_static(
      "supports_secure_coding", [](const py::object&) { return true; }, "True.");
  cls.def_readwrite("kernel_width", &Self::kernel_width, "Columns.");
  cls.def_readwrite("kernel_height", &Self::kernel_height, "Rows.");
  cls.def_readwrite("input_feature_channels", &Self::input_feature_channels, "Of the source.");
  cls.def_readwrite("output_feature_channels", &Self::output_feature_channels, "Of the result.");
  cls.def_readwrite("stride_in_pixels_x", &Self::stride_in_pixels_x, "Between windows.");
  cls.def_readwrite("stride_in_pixels_y", &Self::stride_in_pixels_y, "Between windows.");
  cls.def_readwrite("groups", &Self::groups, "Of channels that are apart from each other.");
  cls.def_readwrite("dilation_rate_x", &Self::dilation_rate_x, "Between the kernel's columns.");
  cls.def_readwrite("dilation_rate_y", &Self::dilation_rate_y, "Between the kernel's rows.");
  cls.def_readwrite("fused_neuron_descriptor", &Self::fused_neuron_descriptor,
                    "What is applied to the result.");
  def_method(cls, "set_batch_normalization_parameters_for_inference", "None",
             {"with_mean: ArrayLike, variance: ArrayLike, "
              "gamma: ArrayLike | None = None, "
              "beta: ArrayLike | None = None, epsilon: float = 0.0"},
             "A batch normalization between convolution and neuron, which becomes part of weights "
             "and biases whenever they are loaded from a data source; those of a state are taken "
             "as they are. Shapes: (O). Types: float32.",
             [](Self& self, const Arguments& a) {
               auto made = std::make_shared<mps::InferenceNormalization>();
               made->mean = channels_of(self, a, "with_mean", 0);
               made->variance = channels_of(self, a, "variance", 1);
               made->gamma = channels_of(self, a, "gamma", 1);
               made->beta = channels_of(self, a, "beta", 0);
               made->epsilon = a.get<float>("epsilon");
               self.batch_normalization = std::move(made);
             });
  cls.def_property(
      "_batch_normalization",
      [](const Self& self) -> py::object {
        if (self.batch_normalization == nullptr) return py::none();
        const mps::InferenceNormalization& n = *self.batch_normalization;
        return py::make_tuple(n.mean, n.variance, n.gamma, n.beta, n.epsilon);
      },
      [](Self& self, const py::object& value) {
        self.batch_normalization = nullptr;
        if (value.is_none()) return;
        using Numbers = std::vector<float>;
        const auto [mean, variance, gamma, beta, epsilon] =
            py::cast<std::tuple<Numbers, Numbers, Numbers, Numbers, float>>(value);
        self.batch_normalization = std::make_shared<mps::InferenceNormalization>(
            mps::InferenceNormalization{mean, variance, gamma, beta, epsilon});
      },
      "What an archive has of it.");
  def_neuron(cls);

  using DepthWise = mps::CNNDepthWiseConvolutionDescriptor;
  auto depth_wise = BoundClass<DepthWise, Self>(
      module, "MPSCNNDepthWiseConvolutionDescriptor",
      "The sizes of a convolution of each channel by itself: as many filters per source channel as "
      "the result has channels for it, side by side. Shapes: weights (O, kernel_height, "
      "kernel_width, 1).");
  def_descriptor(depth_wise, "MPSCNNDepthWiseConvolutionDescriptor");
  depth_wise.def_property_readonly("channel_multiplier", &Self::channel_multiplier,
                                   "Result channels per source channel.");
  using SubPixel = mps::CNNSubPixelConvolutionDescriptor;
  auto sub_pixel = BoundClass<SubPixel, Self>(module, "MPSCNNSubPixelConvolutionDescriptor",
                                              "The sizes of a convolution whose result channels "
                                              "become blocks of pixels. Shapes: (N, r r C, "
                                              "P, Q) to (N, C, r P, r Q); pixel (y, x) of a block "
                                              "is channel (r y + x) C + c. No gradient.");
  def_descriptor(sub_pixel, "MPSCNNSubPixelConvolutionDescriptor");
  sub_pixel.def_readwrite("sub_pixel_scale_factor", &SubPixel::sub_pixel_scale_factor,
                          "r, the rows and columns of a block; 1 at the beginning.");
}

}  // namespace traingraph::python
