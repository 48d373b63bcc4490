#include "mps/kernel_description.h"

namespace traingraph::mps {
namespace {

// --- local ---------------------------------------------------------------------------------------

template <class K>
void describe_parameter(OldDescribing<K>& local, const char* name,
                        float LocalNormalization::* member) {
  local.property(
      name, [member](const K& kernel) { return kernel.parameters().*member; },
      [member](K& kernel, float value) {
        LocalNormalization parameters = kernel.parameters();
        parameters.*member = value;
        kernel.set_parameters(parameters);
      });
}

// A local normalization or, with a prefix to the names, its gradient kernel.
template <class K>
OldDescribing<K> describe_local(KernelTable& table, const std::string& kind,
                                LocalNormalizationType type, const std::string& prefix = "") {
  using P = LocalNormalization;
  OldDescribing<K> local(table, kind);
  const auto width = [](const K& kernel) { return kernel.parameters().kernel_width; };
  const auto height = [](const K& kernel) { return kernel.parameters().kernel_height; };
  const bool across = type == LocalNormalizationType::kCrossChannel;
  const std::string first = across ? "kernel_size" : prefix + "kernel_width";
  const std::string second = prefix + "kernel_height";
  local.argument(first, width);
  if (!across) local.argument(second, height);
  describe_parameter(local, "alpha", &P::alpha);
  describe_parameter(local, "beta", &P::beta);
  describe_parameter(local, "delta", &P::delta);
  if (type == LocalNormalizationType::kLocalContrast) {
    describe_parameter(local, "p0", &P::p0);
    describe_parameter(local, "pm", &P::pm);
    describe_parameter(local, "ps", &P::ps);
  }
  local.made_by([=](const Device& device, const KernelArguments& given) {
    const auto size = given.get<std::int64_t>(first);
    if (across) return std::make_shared<K>(device, P::cross_channel(size));
    const auto rows = given.get<std::int64_t>(second);
    return std::make_shared<K>(device, type == LocalNormalizationType::kSpatial
                                           ? P::spatial(size, rows)
                                           : P::local_contrast(size, rows));
  });
  return local;
}

void describe_local_pair(KernelTable& table, const std::string& kind, LocalNormalizationType type) {
  using Gradient = CNNLocalNormalizationGradient;
  describe_local<CNNLocalNormalization>(table, kind, type);
  auto gradient = describe_local<Gradient>(table, kind + "Gradient", type, "secondary_");
  gradient.property("header_formula", &Gradient::header_formula, &Gradient::set_header_formula);
}

// --- with a data source --------------------------------------------------------------------------

void describe_batch_normalization(KernelTable& table) {
  constexpr const char* kNeuron = "fused_neuron_descriptor";
  using Forward = CNNBatchNormalization;
  OldDescribing<Forward>(table, "MPSCNNBatchNormalization")
      .argument("data_source", &Forward::data_source)
      .argument(kNeuron, &Forward::fused_neuron_descriptor)
      .property("epsilon", &Forward::epsilon, &Forward::set_epsilon)
      .made_of<CNNBatchNormalizationDataSourcePtr, NeuronDescriptor>();
  OldDescribing<CNNBatchNormalizationStatistics>(table, "MPSCNNBatchNormalizationStatistics")
      .made_of<>();
  using Statistics = CNNBatchNormalizationStatisticsGradient;
  OldDescribing<Statistics>(table, "MPSCNNBatchNormalizationStatisticsGradient")
      .argument(kNeuron, &Statistics::fused_neuron_descriptor)
      .made_of<NeuronDescriptor>();
  using Gradient = CNNBatchNormalizationGradient;
  OldDescribing<Gradient>(table, "MPSCNNBatchNormalizationGradient")
      .argument(kNeuron, &Gradient::fused_neuron_descriptor)
      .made_of<NeuronDescriptor>();
}

void describe_image_normalizations(KernelTable& table) {
  using Instance = CNNInstanceNormalization;
  OldDescribing<Instance>(table, "MPSCNNInstanceNormalization")
      .argument("data_source", &Instance::data_source)
      .property("epsilon", &Instance::epsilon, &Instance::set_epsilon)
      .made_of<CNNInstanceNormalizationDataSourcePtr>();
  using Group = CNNGroupNormalization;
  OldDescribing<Group>(table, "MPSCNNGroupNormalization")
      .argument("data_source",
                [](const Group& kernel) {
                  auto source = std::dynamic_pointer_cast<CNNGroupNormalizationDataSource>(
                      kernel.data_source());
                  if (source != nullptr) return source;
                  throw InvalidArgument("[" + kernel.description() +
                                        "] expected a data source with groups but got another");
                })
      .property("epsilon", &Group::epsilon, &Group::set_epsilon)
      .made_of<CNNGroupNormalizationDataSourcePtr>();
  OldDescribing<CNNInstanceNormalizationGradient>(table, "MPSCNNInstanceNormalizationGradient")
      .made_of<>();
  OldDescribing<CNNGroupNormalizationGradient>(table, "MPSCNNGroupNormalizationGradient")
      .made_of<>();
}

}  // namespace

void describe_normalizations(KernelTable& table) {
  describe_local_pair(table, "MPSCNNCrossChannelNormalization",
                      LocalNormalizationType::kCrossChannel);
  describe_local_pair(table, "MPSCNNSpatialNormalization", LocalNormalizationType::kSpatial);
  describe_local_pair(table, "MPSCNNLocalContrastNormalization",
                      LocalNormalizationType::kLocalContrast);
  describe_batch_normalization(table);
  describe_image_normalizations(table);
}

}  // namespace traingraph::mps
