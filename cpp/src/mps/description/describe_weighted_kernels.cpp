// Convolutions and fully connected kernels.
#include <traingraph/errors.h>
#include <traingraph/mps/convolution_transpose.h>
#include <traingraph/mps/stored_sources.h>

#include "mps/description/describe_kernel.h"

namespace traingraph::mps {
namespace {

template <class K>
const NeuronDescriptor& neuron_of(const K& kernel) {
  return kernel.descriptor().fused_neuron_descriptor;
}

// Made of the weights; the descriptor is what they say.
template <class K, class Parent>
Describing<K, Kernel, Parent> describe_weighted(const char* name, const char* summary,
                                                const char* text) {
  auto described = describe_kernel<K, Parent>(name, summary);
  described
      .kept_argument("weights", &K::data_source,
                     "An object with the members of MPSCNNConvolutionDataSource.")
      .template made_of<Device, CNNConvolutionDataSourcePtr>(text);
  return described;
}

template <class D, class Get>
void describe_size(D& described, const char* name, Get get, const char* text) {
  described.property(
      name, [get](const auto& kernel) { return std::invoke(get, kernel.descriptor()); }, text);
}

template <class D, class K>
void describe_source(D& described, const K*) {
  describe_size(described, "groups", &CNNConvolutionDescriptor::groups, "Of channels.");
  described.property("data_source", &K::data_source, "The data source of the weights.");
}

template <class D>
void describe_channel_multiplier(D& described) {
  describe_size(described, "channel_multiplier", &CNNConvolutionDescriptor::channel_multiplier,
                "Result channels per source channel of a depthwise convolution, 0 of others.");
}

// Weights from a state, encoded; where the kernel can also from another data source, at once.
template <class K, class D>
void describe_reloads(D& described) {
  using Source = CNNConvolutionDataSourcePtr;
  using StatePtr = std::shared_ptr<CNNConvolutionWeightsAndBiasesState>;
  constexpr bool has_other =
      requires(K& kernel, Source source) { kernel.reload_weights_and_biases(source); };
  std::vector<std::vector<Argument>> forms = {
      {argument<CommandBufferPtr>("command_buffer", kCommandBufferText),
       argument<StatePtr>("state", "The new weights and biases.")}};
  if (has_other) forms.push_back({argument<Source>(kOtherSource, "The new data source.")});
  described
      .function("reload_weights_and_biases_from_data_source",
                &K::reload_weights_and_biases_from_data_source, kReloadText)
      .waits_first(idle)
      .function_of_forms(
          "reload_weights_and_biases",
          has_other ? "Encodes the replacement of the weights by the state's, or loads another "
                      "data source when all runs that were committed are done. Errors: other sizes."
                    : "Encodes the replacement of the weights by the state's.",
          std::move(forms),
          [](K& self, const Given& given) {
            if constexpr (has_other) {
              if (given.find(kOtherSource) != nullptr) {
                self.reload_weights_and_biases(given.get<Source>(kOtherSource));
                return;
              }
            }
            self.reload_weights_and_biases(*given.get<CommandBufferPtr>("command_buffer"),
                                           *given.get<StatePtr>("state"));
          })
      .waits_first(idle_for_source);
}

template <class K, class D>
void describe_export(D& described) {
  described.function(
      "export_weights_and_biases",
      [](K& self, CommandBuffer& buffer, bool) { return self.export_weights_and_biases(buffer); },
      "Encodes a copy of the weights into a new permanent state.",
      {{"command_buffer", kCommandBufferText},
       {"result_state_can_be_temporary", "Has no effect: the state is permanent.", false}});
}

// Of a forward kernel.
template <class D, class K>
void describe_channels_of(D& described, const K* kernel) {
  using C = CNNConvolutionDescriptor;
  describe_source(described, kernel);
  describe_size(described, "input_feature_channels", &C::input_feature_channels,
                "Channels of the source.");
  describe_size(described, "output_feature_channels", &C::output_feature_channels,
                "Channels of the result.");
  describe_reloads<K>(described);
  describe_export<K>(described);
}

// Of a gradient kernel.
template <class K>
Describing<K, Kernel, CNNGradientKernel> describe_gradient(const char* name, const char* summary) {
  using C = CNNConvolutionDescriptor;
  auto described = describe_weighted<K, CNNGradientKernel>(
      name, summary, "Loads the weights, which must equal the forward kernel's.");
  describe_source(described, static_cast<const K*>(nullptr));
  describe_size(described, "source_gradient_feature_channels", &C::output_feature_channels,
                "The number of channels of the incoming gradient.");
  describe_size(described, "source_image_feature_channels", &C::input_feature_channels,
                "The number of channels of the forward source.");
  described.settable("gradient_option", &K::gradient_option, &K::set_gradient_option,
                     "Which gradients are computed.");
  describe_reloads<K>(described);
  return described;
}

// The form over arrays, which Apple deprecates; it has flags of 0 alone.
template <class K, class Parent>
void describe_arrays(Describing<K, Kernel, Parent>& described) {
  Argument biases = optional_argument<Float32Elements>("bias_terms", "(O), or None.");
  biases.value_if_absent.reset();
  described.form(
      {device_argument(),
       argument<CNNConvolutionDescriptor>("convolution_descriptor", "The sizes."),
       argument<Float32Elements>("kernel_weights", "(O, kernel_height, kernel_width, I / groups)."),
       biases, argument("flags", std::int64_t{0}, "No flags.", &kZero)},
      [](const Given& given) {
        if (given.get<std::int64_t>("flags") != 0) {
          throw InvalidArgument("[MPSCNNConvolution] expected flags of 0 but got others");
        }
        return std::make_shared<K>(
            given.get<Device>("device"),
            std::make_shared<ConvolutionOfArrays>(
                given.get<CNNConvolutionDescriptor>("convolution_descriptor"), DataType::kFloat32,
                given.get<Float32Elements>("kernel_weights").bytes,
                given.get<Float32Elements>("bias_terms").bytes));
      });
}

void describe_convolution(Classes& classes) {
  using K = CNNConvolution;
  using C = CNNConvolutionDescriptor;
  auto described = describe_weighted<K, CNNKernel>(
      "MPSCNNConvolution", "Windows times weights, plus biases; zeros beyond the image.",
      "Loads the weights. Shapes: (N, I, H, W) to (N, O, P, Q) by the padding policy.");
  describe_arrays(described);
  describe_channels_of(described, static_cast<const K*>(nullptr));
  describe_size(described, "fused_neuron_descriptor", &C::fused_neuron_descriptor,
                "The neuron applied to the result.");
  describe_size(described, "sub_pixel_scale_factor", &C::sub_pixel_scale_factor,
                "Rows and columns of the blocks of pixels that result channels become.");
  describe_channel_multiplier(described);
  described
      .property(
          "neuron_type", [](const K& kernel) { return neuron_of(kernel).type; },
          "The type of the fused neuron.")
      .optional_property(
          "neuron",
          [](const K& kernel) -> std::shared_ptr<CNNNeuron> {
            const NeuronDescriptor& neuron = neuron_of(kernel);
            if (neuron.type == NeuronType::kNone) return nullptr;
            return std::make_shared<CNNNeuron>(kernel.device(), neuron);
          },
          "The fused neuron as a kernel of its own, or None; deprecated by Apple.");
  const auto parameter = [&](const char* name, float NeuronDescriptor::* member) {
    described.property(
        name, [member](const K& kernel) { return neuron_of(kernel).*member; },
        "A parameter of the fused neuron.");
  };
  parameter("neuron_parameter_a", &NeuronDescriptor::a);
  parameter("neuron_parameter_b", &NeuronDescriptor::b);
  parameter("neuron_parameter_c", &NeuronDescriptor::c);
  classes.push_back(described);
  auto full = describe_weighted<CNNFullyConnected, CNNConvolution>(
      "MPSCNNFullyConnected", "A convolution whose kernel covers the image.",
      "Loads the weights. Shapes: (N, I, H, W) to (N, O, 1, 1).");
  describe_arrays(full);
  classes.push_back(full);
  auto gradient = describe_gradient<CNNConvolutionGradient>(
      "MPSCNNConvolutionGradient", "Gradients by data, and by weights and biases into the state.");
  describe_channel_multiplier(gradient);
  classes.push_back(gradient);
  classes.push_back(describe_weighted<CNNFullyConnectedGradient, CNNConvolutionGradient>(
      "MPSCNNFullyConnectedGradient", "The same for MPSCNNFullyConnected.",
      "Loads the weights, which must equal the forward kernel's."));
}

void describe_transposed(Classes& classes) {
  using K = CNNConvolutionTranspose;
  constexpr const char* kOffset = "In the source with zeros between its pixels.";
  auto described = describe_weighted<K, CNNKernel>(
      "MPSCNNConvolutionTranspose",
      "Zeros between the pixels, then a convolution with the weights as they are.",
      "Loads the weights. Shapes: (N, I, H, W) to (N, O, P, Q): the source of the convolution "
      "whose state is given, or, with the padding policy, (H - 1) stride + 2 - extent for "
      "SIZE_VALID_ONLY, H stride for SIZE_SAME and (H - 1) stride + extent for SIZE_FULL.");
  describe_channels_of(described, static_cast<const K*>(nullptr));
  described.settable("kernel_offset_x", &K::kernel_offset_x, &K::set_kernel_offset_x, kOffset)
      .settable("kernel_offset_y", &K::kernel_offset_y, &K::set_kernel_offset_y, kOffset);
  classes.push_back(described);
  classes.push_back(describe_gradient<CNNConvolutionTransposeGradient>(
      "MPSCNNConvolutionTransposeGradient",
      "Gradients by data, and by weights and biases into the state."));
}

}  // namespace

void describe_weighted_kernels(Classes& classes) {
  describe_convolution(classes);
  describe_transposed(classes);
}

}  // namespace traingraph::mps
