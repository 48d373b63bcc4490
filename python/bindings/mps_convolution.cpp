#include <pybind11/numpy.h>

#include "data.h"
#include "mps_data_source.h"

namespace traingraph::python {
namespace {

using mps::CNNConvolution;
using mps::CNNConvolutionDataSource;
using mps::CNNConvolutionDescriptor;
using mps::CNNConvolutionGradient;
using mps::CNNConvolutionGradientState;
using mps::CNNConvolutionWeightsAndBiasesState;
using mps::CNNFullyConnected;
using mps::CNNFullyConnectedGradient;

constexpr long kMpsFloat32 = 268435488;
constexpr long kMpsFloat64 = 268435520;
constexpr long kMpsFloat16 = 268435472;

class ConvolutionSource final : public UserSource<CNNConvolutionDataSource> {
 public:
  using Gradient = std::shared_ptr<CNNConvolutionGradientState>;
  using Weights = std::shared_ptr<CNNConvolutionWeightsAndBiasesState>;
  explicit ConvolutionSource(const py::object& object)
      : UserSource(object, "MPSCNNConvolutionDataSource") {}

  DataType data_type() const override {
    const py::gil_scoped_acquire acquire;
    return has("data_type") ? from_mps_data_type(answer("data_type")) : DataType::kFloat32;
  }
  CNNConvolutionDescriptor descriptor() const override {
    const py::gil_scoped_acquire acquire;
    const py::object value = object_.attr("descriptor")();
    if (!py::isinstance<CNNConvolutionDescriptor>(value)) {
      refuse(where("descriptor", "result", "MPSCNNConvolutionDescriptor"), value);
    }
    return py::cast<CNNConvolutionDescriptor>(value);
  }
  const void* weights() const override {
    const py::gil_scoped_acquire acquire;
    const CNNConvolutionDescriptor d = descriptor();
    const std::int64_t count = d.output_feature_channels * d.kernel_height * d.kernel_width *
                               (d.input_feature_channels / d.all_groups());
    return elements_of(object_.attr("weights")(), data_type(), count, method("weights").c_str(),
                       "weights", arrays_);
  }
  const void* bias_terms() const override {
    const py::gil_scoped_acquire acquire;
    return elements("bias_terms", data_type(), descriptor().output_feature_channels);
  }
  Weights update(mps::CommandBuffer& buffer, const Gradient& gradient,
                 const Weights& source) override {
    const py::gil_scoped_acquire acquire;
    return new_state<Weights>("update", "MPSCNNConvolutionWeightsAndBiasesState | None",
                              buffer.shared_from_this(), gradient, source);
  }
  bool update(const Gradient& gradient, const Weights& source) override {
    const py::gil_scoped_acquire acquire;
    return says_yes("update_with_gradient_state", gradient, source);
  }
};

// What each class of descriptors has by itself, because it returns its own class.
template <typename Class>
void def_descriptor(Class& cls, const char* name) {
  using Self = typename Class::type;
  def_factory(cls, "cnn_convolution_descriptor", name,
              {"with_kernel_width: int, kernel_height: int, input_feature_channels: int, "
               "output_feature_channels: int"},
              "Strides, dilations and groups of 1, and no fused neuron.",
              [](const Arguments& arguments) {
                Self d;
                d.kernel_width = arguments.get<std::int64_t>("with_kernel_width");
                d.kernel_height = arguments.get<std::int64_t>("kernel_height");
                d.input_feature_channels = arguments.get<std::int64_t>("input_feature_channels");
                d.output_feature_channels = arguments.get<std::int64_t>("output_feature_channels");
                return d;
              });
  def_init(cls, {"coder: typing.Any"}, "What was encoded. Errors: something else was.",
           [](const Arguments& arguments) {
             return py::cast<Self>(
                 kernel_coding("decoded_descriptor")(py::type::of<Self>(), arguments["coder"]));
           });
  cls.def(
      "encode_with_coder",
      [](const Self& self, const py::object& coder) {
        kernel_coding("encode_descriptor")(self, coder);
      },
      py::arg("coder"), "Writes all properties into a coder, such as NSKeyedArchiver.");
  def_copy(cls, [](const Self& self) { return self; });
}

void bind_descriptor(py::module_& module) {
  using Self = CNNConvolutionDescriptor;
  auto cls = py::class_<Self>(module, "MPSCNNConvolutionDescriptor", "The sizes of a convolution.");
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

  using DepthWise = mps::CNNDepthWiseConvolutionDescriptor;
  auto depth_wise = py::class_<DepthWise, Self>(
      module, "MPSCNNDepthWiseConvolutionDescriptor",
      "The sizes of a convolution of each channel by itself: as many filters per source channel as "
      "the result has channels for it, side by side. Shapes: weights (O, kernel_height, "
      "kernel_width, 1).");
  def_descriptor(depth_wise, "MPSCNNDepthWiseConvolutionDescriptor");
  depth_wise.def_property_readonly("channel_multiplier", &Self::channel_multiplier,
                                   "Result channels per source channel.");
  using SubPixel = mps::CNNSubPixelConvolutionDescriptor;
  auto sub_pixel = py::class_<SubPixel, Self>(module, "MPSCNNSubPixelConvolutionDescriptor",
                                              "The sizes of a convolution whose result channels "
                                              "become blocks of pixels. Shapes: (N, r r C, "
                                              "P, Q) to (N, C, r P, r Q); pixel (y, x) of a block "
                                              "is channel (r y + x) C + c. No gradient.");
  def_descriptor(sub_pixel, "MPSCNNSubPixelConvolutionDescriptor");
  sub_pixel.def_readwrite("sub_pixel_scale_factor", &SubPixel::sub_pixel_scale_factor,
                          "r, the rows and columns of a block; 1 at the beginning.");
}

void bind_states(py::module_& module) {
  using Weights = CNNConvolutionWeightsAndBiasesState;
  auto weights = py::class_<Weights, mps::State, std::shared_ptr<Weights>>(
      module, "MPSCNNConvolutionWeightsAndBiasesState", "Weights and biases on a device.");
  def_init(weights,
           {"weights: MTLBuffer, biases: MTLBuffer | None = None",
            "device: MTLDevice | MLCDevice | str, "
            "cnn_convolution_descriptor: MPSCNNConvolutionDescriptor"},
           "Shapes: weights (O, kernel_height, kernel_width, I / groups), biases (O). Types: "
           "float32.",
           [](const Arguments& arguments) {
             if (arguments.given("device")) {
               return std::make_shared<Weights>(
                   to_mps_device(arguments["device"]),
                   arguments.get<CNNConvolutionDescriptor>("cnn_convolution_descriptor"));
             }
             return std::make_shared<Weights>(
                 arguments.get<std::shared_ptr<mps::Buffer>>("weights"),
                 arguments.nullable<std::shared_ptr<mps::Buffer>>("biases"));
           });
  weights.def_property_readonly("weights", &Weights::weights,
                                "(O, kernel_height, kernel_width, I / groups).");
  weights.def_property_readonly("biases", &Weights::biases, "(O), or None.");

  using Gradient = CNNConvolutionGradientState;
  auto gradient = py::class_<Gradient, mps::GradientState, std::shared_ptr<Gradient>>(
      module, "MPSCNNConvolutionGradientState", "The gradients of one batch; one for all images.");
  gradient.def_property_readonly(
      "gradient_for_weights", &Gradient::gradient_for_weights,
      "(O, kernel_height, kernel_width, I / groups), summed over the batch.");
  gradient.def_property_readonly("gradient_for_biases", &Gradient::gradient_for_biases,
                                 "(O), summed over the batch.");
  gradient.def_property_readonly(
      "convolution",
      [](const Gradient& self) {
        return std::const_pointer_cast<CNNConvolution>(self.convolution());
      },
      "The forward kernel.");
}

template <typename Class>
void def_channel_multiplier(Class& cls) {
  using Self = typename Class::type;
  cls.def_property_readonly(
      "channel_multiplier", [](const Self& self) { return self.descriptor().channel_multiplier(); },
      "Result channels per source channel of a depthwise convolution, 0 of others.");
}

void bind_kernels(py::module_& module) {
  auto forward = py::class_<CNNConvolution, mps::CNNKernel, std::shared_ptr<CNNConvolution>>(
      module, "MPSCNNConvolution", "Windows times weights, plus biases; zeros beyond the image.");
  def_forward_weights(
      forward, "Loads the weights. Shapes: (N, I, H, W) to (N, O, P, Q) by the padding policy.");
  forward.def_property_readonly(
      "fused_neuron_descriptor",
      [](const CNNConvolution& self) { return self.descriptor().fused_neuron_descriptor; },
      "What is applied to the result.");
  forward.def_property_readonly(
      "sub_pixel_scale_factor",
      [](const CNNConvolution& self) { return self.descriptor().sub_pixel_scale_factor; },
      "Rows and columns of the blocks of pixels that result channels become.");
  def_channel_multiplier(forward);
  auto full = py::class_<CNNFullyConnected, CNNConvolution, std::shared_ptr<CNNFullyConnected>>(
      module, "MPSCNNFullyConnected", "A convolution whose kernel covers the image.");
  def_weights_init(full, "Loads the weights. Shapes: (N, I, H, W) to (N, O, 1, 1).");

  auto gradient = py::class_<CNNConvolutionGradient, mps::CNNGradientKernel,
                             std::shared_ptr<CNNConvolutionGradient>>(
      module, "MPSCNNConvolutionGradient",
      "Gradients by data, and by weights and biases into the state.");
  def_gradient_weights(gradient);
  def_channel_multiplier(gradient);
  auto full_gradient = py::class_<CNNFullyConnectedGradient, CNNConvolutionGradient,
                                  std::shared_ptr<CNNFullyConnectedGradient>>(
      module, "MPSCNNFullyConnectedGradient", "The same for MPSCNNFullyConnected.");
  def_weights_init(full_gradient, kGradientWeights);
}

}  // namespace

mps::CNNConvolutionDataSourcePtr to_convolution_source(const py::object& value) {
  return std::make_shared<ConvolutionSource>(value);
}

py::object from_convolution_source(const mps::CNNConvolutionDataSource& source) {
  return static_cast<const ConvolutionSource&>(source).object();
}

DataType from_mps_data_type(py::handle value) {
  switch (enum_value("MPSDataType", value)) {
    case kMpsFloat32:
      return DataType::kFloat32;
    case kMpsFloat64:
      return DataType::kFloat64;
    case kMpsFloat16:
      return DataType::kFloat16;
    default:
      return DataType::kInvalid;
  }
}

py::object to_mps_data_type(DataType type) {
  return enum_member("MPSDataType", type == DataType::kFloat64   ? kMpsFloat64
                                    : type == DataType::kFloat16 ? kMpsFloat16
                                                                 : kMpsFloat32);
}

const void* elements_of(py::handle value, DataType type, std::int64_t count, const char* subject,
                        const char* what, std::vector<py::object>& keeper) {
  const TensorData data = readable_data(value, type, {subject, what, {}});
  const std::size_t expected = element_bytes(type) * static_cast<std::size_t>(count);
  if (data.length != expected) {
    throw ShapeError("[" + std::string(subject) + "] expected " + std::to_string(count) +
                     " elements but got " + std::to_string(data.length / element_bytes(type)));
  }
  const std::shared_ptr<const void> owner = data.owner;
  if (owner != nullptr) {
    keeper.push_back(py::capsule(new std::shared_ptr<const void>(owner), [](void* held) {
      delete static_cast<std::shared_ptr<const void>*>(held);
    }));
  }
  return data.bytes;
}

void bind_mps_convolution(py::module_& module) {
  bind_descriptor(module);
  // Kernels come first: a state names its kernel.
  bind_kernels(module);
  bind_states(module);
}

}  // namespace traingraph::python
