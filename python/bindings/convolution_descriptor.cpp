#include "bindings.h"
#include "convert.h"
#include "convolution.h"
#include "signature.h"

namespace traingraph::python {
namespace {

ConvolutionDescriptor make_convolution_descriptor(const Arguments& arguments) {
  const auto count = [&arguments](const char* name) { return arguments.get<std::int64_t>(name); };
  ConvolutionDescriptor result;
  result.input_feature_channel_count = count("input_feature_channel_count");
  if (arguments.given("depthwise_with_kernel_width")) {
    result.type = ConvolutionType::kDepthwise;
    result.kernel_width = count("depthwise_with_kernel_width");
    result.kernel_height = count("kernel_height");
    result.output_feature_channel_count =
        result.input_feature_channel_count * count("channel_multiplier");
    result.group_count = result.input_feature_channel_count;
    return result;
  }
  result.output_feature_channel_count = count("output_feature_channel_count");
  if (arguments.given("transpose_with_kernel_width")) {
    result.type = ConvolutionType::kTransposed;
    result.kernel_width = count("transpose_with_kernel_width");
    result.kernel_height = count("kernel_height");
    return result;
  }
  const auto sizes = arguments.get<Pair>("kernel_sizes");
  const auto strides = arguments.get<Pair>("strides");
  const auto dilations = arguments.get<Pair>("dilation_rates");
  const auto padding = arguments.get<Padding>("padding_policy");
  result.type = arguments.get<ConvolutionType>("type");
  result.kernel_height = sizes.y;
  result.kernel_width = sizes.x;
  result.group_count = count("group_count");
  result.stride_y = strides.y;
  result.stride_x = strides.x;
  result.dilation_y = dilations.y;
  result.dilation_x = dilations.x;
  result.padding_policy = padding.policy;
  result.padding_y = padding.sizes.y;
  result.padding_x = padding.sizes.x;
  return result;
}

}  // namespace

void bind_convolution_descriptor(py::module_& module) {
  using Self = ConvolutionDescriptor;
  auto cls = BoundClass<Self>(module, "MLCConvolutionDescriptor",
                              "Channels, kernel, strides and padding of a convolution.");
  def_init(cls,
           {"type: MLCConvolutionType | str = MLCConvolutionType.STANDARD, "
            "kernel_sizes: tuple[int, int], input_feature_channel_count: int, "
            "output_feature_channel_count: int, group_count: int = 1, "
            "strides: tuple[int, int] = (1, 1), dilation_rates: tuple[int, int] = (1, 1), "
            "padding_policy: MLCPaddingPolicy | str = MLCPaddingPolicy.SAME",
            "transpose_with_kernel_width: int, kernel_height: int, "
            "input_feature_channel_count: int, output_feature_channel_count: int",
            "depthwise_with_kernel_width: int, kernel_height: int, "
            "input_feature_channel_count: int, channel_multiplier: int"},
           "Pairs are (height, width) and (y, x).", make_convolution_descriptor);
  cls.def_property_readonly(
      "convolution_type", [](const Self& self) { return self.type; }, "The type.");
  cls.def_property_readonly(
      "is_convolution_transpose",
      [](const Self& self) { return self.type == ConvolutionType::kTransposed; },
      "Whether the type is TRANSPOSED.");
  cls.def_property_readonly(
      "uses_depthwise_convolution",
      [](const Self& self) { return self.type == ConvolutionType::kDepthwise; },
      "Whether the type is DEPTHWISE.");
  cls.def_readonly("input_feature_channel_count", &Self::input_feature_channel_count,
                   "Channels of the source.");
  cls.def_readonly("output_feature_channel_count", &Self::output_feature_channel_count,
                   "Channels of the result.");
  cls.def_readonly("group_count", &Self::group_count, "Groups of channels.");
  def_window(cls);
  def_copy(cls, [](const Self& self) { return self; });
  cls.def("__repr__", [](const Self& self) {
    return "<MLCConvolutionDescriptor " + std::to_string(self.kernel_height) + "x" +
           std::to_string(self.kernel_width) + " " +
           std::to_string(self.input_feature_channel_count) + " -> " +
           std::to_string(self.output_feature_channel_count) + ">";
  });
}

}  // namespace traingraph::python
