// The sizes of convolutions.
#include <cstring>

#include <traingraph/errors.h>
#include <traingraph/mps/coding.h>
#include <traingraph/mps/stored_sources.h>

#include "mps/description/describe_kernel.h"

namespace traingraph::mps {
namespace {

using C = CNNConvolutionDescriptor;

// Strides, dilations and groups of 1.
template <class D>
D with_sizes(const Given& given) {
  D d;
  d.kernel_width = given.get<std::int64_t>("with_kernel_width");
  d.kernel_height = given.get<std::int64_t>("kernel_height");
  d.input_feature_channels = given.get<std::int64_t>("input_feature_channels");
  d.output_feature_channels = given.get<std::int64_t>("output_feature_channels");
  const auto neuron = given.get<std::shared_ptr<CNNNeuron>>("neuron_filter");
  if (neuron != nullptr) d.fused_neuron_descriptor = neuron->descriptor();
  return d;
}

// What each class has by itself, because it makes its own.
template <class D, class Parent>
Describing<D, void, Parent> describe_sizes(const char* name, const char* summary) {
  const std::vector<Argument> sizes = {
      argument<std::int64_t>("with_kernel_width", "Columns."),
      argument<std::int64_t>("kernel_height", "Rows."),
      argument<std::int64_t>("input_feature_channels", "Channels of the source."),
      argument<std::int64_t>("output_feature_channels", "Channels of the result.")};
  std::vector<Argument> with_neuron = sizes;
  with_neuron.push_back(optional_argument<std::shared_ptr<CNNNeuron>>(
      "neuron_filter", "The neuron applied to the result."));
  with_neuron.back().value_if_absent.reset();
  Describing<D, void, Parent> described(name, summary);
  described
      .factory("cnn_convolution_descriptor",
               "Strides, dilations and groups of 1; the neuron of a kernel, a deprecated form, or "
               "none.",
               {sizes, with_neuron}, with_sizes<D>)
      .text("The descriptor that was encoded. Errors: data of another class.")
      .form(
          {argument<std::shared_ptr<const Coder>>("coder", "NSCoder, such as MPSKeyedUnarchiver.")},
          [kind = std::string(name)](const Given& given) {
            D decoded;
            static_cast<C&>(decoded) = convolution_descriptor_with_coder(
                kind, *given.get<std::shared_ptr<const Coder>>("coder"));
            return decoded;
          });
  return described;
}

using MaybeElements = std::optional<Float32Elements>;

// Numbers per output channel; where none are given, the same one for each.
std::vector<float> channels_of(const C& self, const MaybeElements& given, float otherwise) {
  const auto count = static_cast<std::size_t>(self.output_feature_channels);
  if (!given) return std::vector<float>(count, otherwise);
  const std::size_t elements = given->bytes.size() / sizeof(float);
  if (elements != count) {
    throw ShapeError("[MPSCNNConvolutionDescriptor] expected " + std::to_string(count) +
                     " elements but got " + std::to_string(elements));
  }
  std::vector<float> numbers(count);
  std::memcpy(numbers.data(), given->bytes.data(), given->bytes.size());
  return numbers;
}

void normalize(C& self, const Float32Elements& mean, const Float32Elements& variance,
               const MaybeElements& gamma, const MaybeElements& beta, float epsilon) {
  self.batch_normalization = std::make_shared<InferenceNormalization>(
      InferenceNormalization{channels_of(self, mean, 0), channels_of(self, variance, 1),
                             channels_of(self, gamma, 1), channels_of(self, beta, 0), epsilon});
}

ClassDescription any_convolution() {
  auto described =
      describe_sizes<C, void>("MPSCNNConvolutionDescriptor", "The sizes of a convolution.");
  described.settable("kernel_width", &C::kernel_width, "Columns.")
      .settable("kernel_height", &C::kernel_height, "Rows.")
      .settable("input_feature_channels", &C::input_feature_channels, "Channels of the source.")
      .settable("output_feature_channels", &C::output_feature_channels, "Channels of the result.")
      .settable("stride_in_pixels_x", &C::stride_in_pixels_x, "Between windows.")
      .settable("stride_in_pixels_y", &C::stride_in_pixels_y, "Between windows.")
      .settable("groups", &C::groups, "Of channels that are apart from each other.")
      .settable("dilation_rate_x", &C::dilation_rate_x, "Between the kernel's columns.")
      .settable("dilation_rate_y", &C::dilation_rate_y, "Between the kernel's rows.")
      // The descriptor's own, which can be changed in place.
      .settable(
          "fused_neuron_descriptor", [](C& d) { return &d.fused_neuron_descriptor; },
          [](C& d, NeuronDescriptor* neuron) { d.fused_neuron_descriptor = *neuron; },
          "The neuron applied to the result.")
      .property(
          "_batch_normalization", [](const C& d) { return coded(d).at("_batch_normalization"); },
          "What an archive has of it.");
  const auto of_neuron = [&](const char* name, auto member) {
    described.function(
        name, [member](const C& d) { return d.fused_neuron_descriptor.*member; },
        "A parameter of the fused neuron.");
  };
  of_neuron("neuron_type", &NeuronDescriptor::type);
  of_neuron("neuron_parameter_a", &NeuronDescriptor::a);
  of_neuron("neuron_parameter_b", &NeuronDescriptor::b);
  described
      .function("set_neuron_type",
                [](C& self, NeuronType type, float a, float b) {
                  NeuronDescriptor neuron;
                  neuron.type = type;
                  neuron.a = a;
                  neuron.b = b;
                  self.fused_neuron_descriptor = neuron;
                },
                "Fuses this neuron.",
                {{"neuron_type", "The neuron function."},
                 {"parameter_a", "The neuron's first parameter."},
                 {"parameter_b", "The neuron's second parameter."}})
      .function("set_neuron_to_prelu",
                [](C& self, const Float32Elements& slopes) {
                  NeuronDescriptor neuron;
                  neuron.type = NeuronType::kPReLU;
                  neuron.data = channels_of(self, slopes, 0);
                  self.fused_neuron_descriptor = neuron;
                },
                "Fuses a PReLU with one slope per output channel. Types: float32.",
                {{"with_parameters_a", "The slopes. Shapes: (O)."}})
      .function("set_batch_normalization_parameters_for_inference", normalize,
                "A batch normalization between convolution and neuron, which becomes part of "
                "weights and biases whenever they are loaded from a data source; those of a state "
                "are taken as they are. Shapes: (O). Types: float32.",
                {{"with_mean", "The mean, which is subtracted."},
                 {"variance", "The variance, whose square root divides."},
                 {"gamma", "Factors; None: 1.", std::any()},
                 {"beta", "Terms; None: 0.", std::any()},
                 {"epsilon", "Added to the variance.", 0.0F}});
  return described;
}

}  // namespace

void describe_convolution_descriptors(Classes& classes) {
  classes.push_back(any_convolution());
  classes.push_back(describe_sizes<CNNDepthWiseConvolutionDescriptor, C>(
                        "MPSCNNDepthWiseConvolutionDescriptor",
                        "The sizes of a convolution of each channel by itself: as many filters per "
                        "source channel as the result has channels for it, side by side. Shapes: "
                        "weights (O, kernel_height, kernel_width, 1).")
                        .property("channel_multiplier", &C::channel_multiplier,
                                  "Result channels per source channel."));
  classes.push_back(describe_sizes<CNNSubPixelConvolutionDescriptor, C>(
                        "MPSCNNSubPixelConvolutionDescriptor",
                        "The sizes of a convolution whose result channels become blocks of pixels. "
                        "Shapes: (N, r r C, P, Q) to (N, C, r P, r Q); pixel (y, x) of a block is "
                        "channel (r y + x) C + c. No gradient.")
                        .settable("sub_pixel_scale_factor", &C::sub_pixel_scale_factor,
                                  "r, the rows and columns of a block; 1 at the beginning."));
}

}  // namespace traingraph::mps
