// What convolutions and normalizations hand on: weights, statistics and their gradients.
#include <traingraph/mps/convolution_transpose.h>
#include <traingraph/mps/instance_normalization.h>

#include "mps/description/describe_kernel.h"

namespace traingraph::mps {
namespace {

using BufferPtr = std::shared_ptr<Buffer>;

constexpr const char* kKernel = "The forward kernel.";
constexpr const char* kWeights = "(O, kernel_height, kernel_width, I / groups).";
constexpr const char* kTemporary = "One that lives on the command buffer, with a read count of 1.";

// `get` gives it as one that nobody changes.
template <class K, class Get>
auto kernel_of(Get get) {
  return [get](const auto& state) {
    return std::const_pointer_cast<K>(std::static_pointer_cast<const K>(std::invoke(get, state)));
  };
}

Argument command_buffer() {
  return argument<CommandBufferPtr>("command_buffer", "The command buffer that it lives on.");
}

// --- convolutions --------------------------------------------------------------------------------

ClassDescription weights() {
  using S = CNNConvolutionWeightsAndBiasesState;
  constexpr const char* kDescriptor = "cnn_convolution_descriptor";
  const auto descriptor = argument<CNNConvolutionDescriptor>(kDescriptor, "The sizes.");
  return Describing<S, State>("MPSCNNConvolutionWeightsAndBiasesState",
                              "Weights and biases on a device.")
      .argument("weights", &S::weights, kWeights)
      .optional_argument("biases", &S::biases, "(O), or None.")
      .property("biases", &S::biases, "(O), or None.")
      .made_of<BufferPtr, BufferPtr>(
          "Shapes: weights (O, kernel_height, kernel_width, I / groups), biases (O). Types: "
          "float32. Errors: sizes that are of no number of channels.")
      .form({device_argument(), descriptor},
            [](const Given& given) {
              return std::make_shared<S>(given.get<Device>("device"),
                                         given.get<CNNConvolutionDescriptor>(kDescriptor));
            })
      .factory("temporary_cnn_convolution_weights_and_biases_state", kTemporary,
               {{command_buffer(), descriptor}}, [](const Given& given) {
                 return std::make_shared<S>(*given.get<CommandBufferPtr>("command_buffer"),
                                            given.get<CNNConvolutionDescriptor>(kDescriptor));
               });
}

void describe_convolution_states(Classes& classes) {
  using S = CNNConvolutionGradientState;
  constexpr const char* kSummary = "The gradients of one batch; one for all images.";
  classes.push_back(weights());
  classes.push_back(
      Describing<S, State, GradientState>("MPSCNNConvolutionGradientState", kSummary)
          .property("gradient_for_weights", &S::gradient_for_weights,
                    "(O, kernel_height, kernel_width, I / groups), summed over the batch.")
          .property("gradient_for_weights_layout", &S::gradient_for_weights_layout,
                    "The order of gradient_for_weights, always the same.")
          .property("gradient_for_biases", &S::gradient_for_biases, "(O), summed over the batch.")
          .property("convolution", kernel_of<CNNConvolution>(&S::convolution), kKernel));
  using Transposed = CNNConvolutionTransposeGradientState;
  classes.push_back(
      Describing<Transposed, State, S>("MPSCNNConvolutionTransposeGradientState", kSummary)
          .property("convolution_transpose",
                    kernel_of<CNNConvolutionTranspose>(&Transposed::convolution_transpose),
                    kKernel));
}

// --- normalizations ------------------------------------------------------------------------------

// Two buffers of one number per channel.
template <class S>
void describe_pair(Classes& classes, const char* name, const char* summary, const char* first,
                   const BufferPtr& (S::*first_of)() const, const char* second,
                   const BufferPtr& (S::*second_of)() const) {
  constexpr const char* kChannels = "number_of_feature_channels";
  classes.push_back(
      Describing<S, State>(name, summary)
          .argument(first, first_of, "(C).")
          .argument(second, second_of, "(C).")
          .template made_of<BufferPtr, BufferPtr>("Types: float32. Errors: sizes that differ.")
          .factory("temporary_state", kTemporary,
                   {{command_buffer(), argument<std::int64_t>(kChannels, "C.")}},
                   [](const Given& given) {
                     return std::make_shared<S>(*given.get<CommandBufferPtr>("command_buffer"),
                                                given.get<std::int64_t>(kChannels));
                   }));
}

template <class S, class K, class Parent>
void describe_image_state(Classes& classes, const char* name, const char* kernel) {
  classes.push_back(
      Describing<S, State, Parent>(
          name, "The gradients of one image; whoever updates adds those of a batch up.")
          .property("gamma", &S::gamma, "The kernel's factors.")
          .property("beta", &S::beta, "The kernel's terms.")
          .property("gradient_for_gamma", &S::gradient_for_gamma, "Sum of dy x^.")
          .property("gradient_for_beta", &S::gradient_for_beta, "Sum of dy.")
          .property(kernel, kernel_of<K>(&S::normalization), kKernel));
}

void describe_normalization_states(Classes& classes) {
  using S = CNNBatchNormalizationState;
  classes.push_back(
      Describing<S, State, GradientState>(
          "MPSCNNBatchNormalizationState",
          "Statistics and gradients of one batch; buffers of one number per channel.")
          .function("reset", &S::reset, "Forgets what was accumulated.")
          .function("gamma", &S::gamma, "The kernel's factors.")
          .function("beta", &S::beta, "The kernel's terms.")
          .function("mean", &S::mean, "The mean of the batch.")
          .function("variance", &S::variance, "The biased variance of the batch.")
          .function("gradient_for_gamma", &S::gradient_for_gamma,
                    "Sum of g x^, or None before the statistics gradient was encoded.")
          .function("gradient_for_beta", &S::gradient_for_beta,
                    "Sum of g, or None before the statistics gradient was encoded.")
          .property("batch_normalization",
                    kernel_of<CNNBatchNormalization>(&S::batch_normalization), kKernel));
  using Gamma = CNNNormalizationGammaAndBetaState;
  describe_pair<Gamma>(classes, "MPSCNNNormalizationGammaAndBetaState",
                       "Factors and terms per channel.", "gamma", &Gamma::gamma, "beta",
                       &Gamma::beta);
  using Mean = CNNNormalizationMeanAndVarianceState;
  describe_pair<Mean>(classes, "MPSCNNNormalizationMeanAndVarianceState", "Statistics per channel.",
                      "mean", &Mean::mean, "variance", &Mean::variance);
  describe_image_state<CNNInstanceNormalizationGradientState, CNNInstanceNormalization,
                       GradientState>(classes, "MPSCNNInstanceNormalizationGradientState",
                                      "instance_normalization");
  describe_image_state<CNNGroupNormalizationGradientState, CNNGroupNormalization, GradientState>(
      classes, "MPSCNNGroupNormalizationGradientState", "group_normalization");
}

}  // namespace

void describe_states(Classes& classes) {
  describe_convolution_states(classes);
  describe_normalization_states(classes);
}

}  // namespace traingraph::mps
