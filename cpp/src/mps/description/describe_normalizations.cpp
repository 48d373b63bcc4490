// Local, batch, instance and group normalization.
#include <traingraph/errors.h>
#include <traingraph/mps/batch_normalization.h>
#include <traingraph/mps/instance_normalization.h>
#include <traingraph/mps/local_normalization.h>

#include "mps/description/describe_kernel.h"

namespace traingraph::mps {
namespace {

// --- local ---------------------------------------------------------------------------------------

struct LocalKind {
  LocalNormalizationType type;
  const char* name;
  const char* summary;
  const char* gradient;
};
const LocalKind kLocalKinds[] = {
    {LocalNormalizationType::kCrossChannel, "MPSCNNCrossChannelNormalization",
     "x / (delta + alpha mean(x^2)) ^ beta, the mean over neighbouring channels.",
     "dy / L^beta - 2 alpha beta / N x sum over the mirrored window of dy x / L^(beta + 1)."},
    {LocalNormalizationType::kSpatial, "MPSCNNSpatialNormalization",
     "x / (delta + alpha mean(x^2)) ^ beta, the mean over neighbouring pixels.",
     "dy / T^beta - 2 alpha beta / N x sum over the mirrored window of dy x / T^(beta + 1)."},
    {LocalNormalizationType::kLocalContrast, "MPSCNNLocalContrastNormalization",
     "pm + ps (x - p0 mean(x)) / (delta + alpha variance(x)) ^ beta.",
     "The derivative by every pixel that a window reads."},
};

// By arguments whose names begin with the prefix.
template <class K>
auto making_local(LocalNormalizationType type, const std::string& prefix) {
  return [type, prefix](const Given& given) {
    const auto number = [&](const std::string& name) { return given.get<std::int64_t>(name); };
    LocalNormalization parameters;
    if (type == LocalNormalizationType::kCrossChannel) {
      parameters = LocalNormalization::cross_channel(number("kernel_size"));
    } else {
      const auto width = number(prefix + "kernel_width");
      const auto height = number(prefix + "kernel_height");
      parameters = type == LocalNormalizationType::kSpatial
                       ? LocalNormalization::spatial(width, height)
                       : LocalNormalization::local_contrast(width, height);
    }
    return std::make_shared<K>(given.get<Device>("device"), parameters);
  };
}

template <class K, class Parent>
void describe_local(Classes& classes, const LocalKind& kind) {
  using P = LocalNormalization;
  constexpr bool kIsGradient = std::is_same_v<K, CNNLocalNormalizationGradient>;
  constexpr const char* kColumns = "The window's columns.";
  constexpr const char* kRows = "The window's rows.";
  auto described = describe_kernel<K, Parent>(
      std::string(kind.name) + (kIsGradient ? "Gradient" : ""),
      kIsGradient ? "The exact derivative, which Apple's text is not; parameters as in the forward "
                    "kernel."
                  : kind.summary);
  described.one_of_several();
  const auto width = [](const K& kernel) { return kernel.parameters().kernel_width; };
  const auto height = [](const K& kernel) { return kernel.parameters().kernel_height; };
  // Archives of gradient kernels have what the properties of the base class are called.
  const std::string prefix = kIsGradient ? "secondary_" : "";
  std::vector<Argument> arguments{device_argument()};
  if (kind.type == LocalNormalizationType::kCrossChannel) {
    described.argument("kernel_size", width, "Channels of the window.");
    arguments.push_back(
        argument<std::int64_t>("kernel_size", "Channels of the window.", &kOfWindow));
  } else {
    described.kept_argument(prefix + "kernel_width", width, kColumns)
        .kept_argument(prefix + "kernel_height", height, kRows);
    arguments.push_back(argument<std::int64_t>("kernel_width", kColumns, &kOfWindow));
    arguments.push_back(argument<std::int64_t>("kernel_height", kRows, &kOfWindow));
  }
  described.coded_by(making_local<K>(kind.type, prefix))
      .form(arguments, making_local<K>(kind.type, ""))
      .text(kIsGradient ? kind.gradient
                        : "Shapes: any to the same. A window reaches floor(k / 2) before its "
                          "middle and floor((k - 1) / 2) "
                          "behind it; beyond the image are zeros, and the mean is over the whole "
                          "window.");
  const auto number = [&](const char* name, float P::* member, const char* text) {
    described.settable_part(name, &K::parameters, &K::set_parameters, member, text).in(kFinite);
  };
  number("alpha", &P::alpha, "The weight of the window.");
  number("beta", &P::beta, "The divisor's power.");
  number("delta", &P::delta, "The least divisor before its power.");
  if (kind.type == LocalNormalizationType::kLocalContrast) {
    number("p0", &P::p0, "The share of the mean that is subtracted.");
    number("pm", &P::pm, "Added to the result.");
    number("ps", &P::ps, "A factor of the result.");
  }
  if constexpr (kIsGradient) {
    described.settable("header_formula", &K::header_formula, &K::set_header_formula,
                       "Whether Apple's text is computed in place of the derivative; an addition "
                       "of traingraph, for comparison.");
  }
  classes.push_back(described);
}

// Of every one with a data source.
template <class K, class D>
void describe_gamma_and_beta(D& described) {
  described
      .function("reload_gamma_and_beta_from_data_source",
                &K::reload_gamma_and_beta_from_data_source, kReloadText)
      .waits_first(idle)
      .function(
          "reload_gamma_and_beta", &K::reload_gamma_and_beta,
          "Encodes the replacement of gamma and beta by the state's.",
          {{"command_buffer", kCommandBufferText}, {"gamma_and_beta_state", "Their new values."}});
}

// --- batch ---------------------------------------------------------------------------------------

constexpr const char* kFusedNeuron = "fused_neuron_descriptor";

void describe_batch_normalization(Classes& classes) {
  using K = CNNBatchNormalization;
  auto described = describe_kernel<K, CNNKernel>(
      "MPSCNNBatchNormalization",
      "y = gamma (x - mean) / sqrt(variance + epsilon) + beta, then the fused neuron.");
  described.argument("data_source", &K::data_source, "The data source of the parameters.")
      .optional_argument(kFusedNeuron, &K::fused_neuron_descriptor,
                         "The neuron applied to the result.")
      .property(kFusedNeuron, &K::fused_neuron_descriptor, "The neuron applied to the result.")
      .property("number_of_feature_channels", &K::number_of_feature_channels, "Channels.")
      .settable("epsilon", &K::epsilon, &K::set_epsilon, "Added to the variance.")
      .made_of<Device, CNNBatchNormalizationDataSourcePtr, NeuronDescriptor>(
          "Shapes: (N, C, H, W) to the same. Loads gamma, beta, mean and variance.");
  describe_gamma_and_beta<K>(described);
  described
      .function(
          "reload_data_source",
          [](K& self, const CNNBatchNormalizationDataSourcePtr& source) { self.reload(source); },
          "Loads another data source of as many channels, when all runs that were committed "
          "are done; deprecated by Apple.",
          {{"data_source", "The new data source."}})
      .waits_first(idle)
      .function("reload_mean_and_variance_from_data_source",
                &K::reload_mean_and_variance_from_data_source, kReloadText)
      .waits_first(idle)
      .function("reload_mean_and_variance", &K::reload_mean_and_variance,
                "Encodes the replacement of mean and variance by the state's.",
                {{"command_buffer", kCommandBufferText},
                 {"mean_and_variance_state", "Their new values."}});
  classes.push_back(described);
  classes.push_back(
      describe_kernel<CNNBatchNormalizationStatistics, CNNKernel>(
          "MPSCNNBatchNormalizationStatistics", "Mean and variance of a batch, part by part.")
          .made_of<Device>("Shapes: (N, C, H, W) to C means and C variances in the state. It "
                           "counts as many pixels as its clip_rect has, from its offset on."));
}

template <class K>
Describing<K, Kernel, CNNGradientKernel> describe_batch_gradient(const char* name,
                                                                 const char* summary) {
  constexpr const char* kText = "The forward kernel's neuron.";
  auto described = describe_kernel<K, CNNGradientKernel>(name, summary);
  described.optional_argument(kFusedNeuron, &K::fused_neuron_descriptor, kText)
      .property(kFusedNeuron, &K::fused_neuron_descriptor, kText)
      .template made_of<Device, NeuronDescriptor>(
          "The fused neuron must be the forward kernel's. A coder is MPSKeyedUnarchiver or like "
          "it.");
  return described;
}

// --- instance and group --------------------------------------------------------------------------

CNNGroupNormalizationDataSourcePtr groups_of(const CNNGroupNormalization& kernel) {
  auto source = std::dynamic_pointer_cast<CNNGroupNormalizationDataSource>(kernel.data_source());
  if (source != nullptr) return source;
  throw InvalidArgument("[" + kernel.description() +
                        "] expected a data source with groups but got another");
}

// `source` gives what archives have.
template <class K, class SourcePtr, class Source>
void describe_image_normalization(Classes& classes, const char* name, const char* where,
                                  Source source) {
  constexpr const char* kSourceText = "The data source of gamma and beta.";
  auto described = describe_kernel<K, CNNKernel>(
      name, std::string("gamma (x - mean) / sqrt(variance + epsilon) + beta over ") + where);
  described.kept_argument("data_source", source, kSourceText)
      .property("data_source", &K::data_source, kSourceText)
      .settable("epsilon", &K::epsilon, &K::set_epsilon, "Added to the variance.")
      .template made_of<Device, SourcePtr>(
          "Shapes: (N, C, H, W) to the same. Loads gamma and beta.");
  describe_gamma_and_beta<K>(described);
  if constexpr (std::is_same_v<K, CNNInstanceNormalization>) {
    described
        .function("reload_data_source", &K::reload_data_source,
                  "Another data source. Errors: another number of channels.",
                  {{"data_source", "The new data source of gamma and beta."}})
        .waits_first(idle);
  }
  classes.push_back(described);
}

template <class K>
void describe_image_gradient(Classes& classes, const char* name) {
  classes.push_back(
      describe_kernel<K, CNNGradientKernel>(
          name, "The gradient by data, and by gamma and beta into the states.")
          .template made_of<Device>("Gamma and epsilon are those of the state's kernel."));
}

}  // namespace

void describe_normalizations(Classes& classes) {
  for (const LocalKind& kind : kLocalKinds) {
    describe_local<CNNLocalNormalization, CNNKernel>(classes, kind);
    describe_local<CNNLocalNormalizationGradient, CNNGradientKernel>(classes, kind);
  }
  describe_batch_normalization(classes);
  using Statistics = CNNBatchNormalizationStatisticsGradient;
  classes.push_back(
      describe_batch_gradient<Statistics>(
          "MPSCNNBatchNormalizationStatisticsGradient",
          "Gradients of gamma and beta into the state, part by part.")
          .function("append_batch_barrier", &Statistics::append_batch_barrier, "True."));
  classes.push_back(describe_batch_gradient<CNNBatchNormalizationGradient>(
      "MPSCNNBatchNormalizationGradient", "The gradient by data."));
  describe_image_normalization<CNNInstanceNormalization, CNNInstanceNormalizationDataSourcePtr>(
      classes, "MPSCNNInstanceNormalization", "each channel of each image.",
      &CNNInstanceNormalization::data_source);
  describe_image_normalization<CNNGroupNormalization, CNNGroupNormalizationDataSourcePtr>(
      classes, "MPSCNNGroupNormalization", "groups of channels of each image.", groups_of);
  describe_image_gradient<CNNInstanceNormalizationGradient>(classes,
                                                            "MPSCNNInstanceNormalizationGradient");
  describe_image_gradient<CNNGroupNormalizationGradient>(classes,
                                                         "MPSCNNGroupNormalizationGradient");
}

}  // namespace traingraph::mps
