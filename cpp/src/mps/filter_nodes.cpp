#include <traingraph/mps/filter_nodes.h>

#include <traingraph/errors.h>
#include <traingraph/mps/convolution_transpose_nodes.h>

#include "mps/graph_plan.h"
#include "mps/node_support.h"

namespace traingraph::mps {
namespace {

struct PoolingNames {
  CNNPoolingType type;
  const char* forward;
  const char* gradient;
};
constexpr PoolingNames kPooling[] = {
    {CNNPoolingType::kMax, "MPSCNNPoolingMaxNode", "MPSCNNPoolingMaxGradientNode"},
    {CNNPoolingType::kAverage, "MPSCNNPoolingAverageNode", "MPSCNNPoolingAverageGradientNode"},
    {CNNPoolingType::kL2Norm, "MPSCNNPoolingL2NormNode", "MPSCNNPoolingL2NormGradientNode"},
    {CNNPoolingType::kDilatedMax, "MPSCNNDilatedPoolingMaxNode",
     "MPSCNNDilatedPoolingMaxGradientNode"},
};
const PoolingNames& names_of(CNNPoolingType type) {
  for (const PoolingNames& names : kPooling) {
    if (names.type == type) return names;
  }
  throw InvalidArgument("[MPSCNNPoolingNode] expected a type of pooling but got raw value " +
                        std::to_string(static_cast<int>(type)));
}

}  // namespace

// --- convolution ---------------------------------------------------------------------------------

CNNConvolutionNode::CNNConvolutionNode(NNImageNodePtr source, CNNConvolutionDataSourcePtr weights)
    : CNNConvolutionNode("MPSCNNConvolutionNode", std::move(source), std::move(weights),
                         std::make_unique<CNNConvolutionGradientStateNode>()) {}

CNNConvolutionNode::CNNConvolutionNode(const char* kind, NNImageNodePtr source,
                                       CNNConvolutionDataSourcePtr weights,
                                       std::unique_ptr<NNStateNode> state,
                                       std::vector<NNStateNodePtr> source_states)
    : NNFilterNode({std::move(source)}, std::move(source_states)), weights_(std::move(weights)) {
  check_sources(kind);
  if (weights_ == nullptr) {
    throw InvalidArgument("[" + std::string(kind) + "] expected a data source but got none");
  }
  label = weights_->label();
  add_state(std::move(state));
}

std::shared_ptr<CNNConvolutionGradientStateNode> CNNConvolutionNode::convolution_gradient_state() {
  return std::static_pointer_cast<CNNConvolutionGradientStateNode>(result_state());
}

std::vector<NNFilterNodePtr> CNNConvolutionNode::make_gradients(const NNImageNodePtr& gradient) {
  return {std::make_shared<CNNConvolutionGradientNode>(gradient, sources()[0], result_state(),
                                                       weights_)};
}

CNNFullyConnectedNode::CNNFullyConnectedNode(NNImageNodePtr source,
                                             CNNConvolutionDataSourcePtr weights)
    : CNNConvolutionNode(std::move(source), std::move(weights)) {
  set_padding_method(PaddingMethod::kSizeValidOnly);
}

std::vector<NNFilterNodePtr> CNNFullyConnectedNode::make_gradients(const NNImageNodePtr& gradient) {
  return {std::make_shared<CNNFullyConnectedGradientNode>(gradient, sources()[0], result_state(),
                                                          data_source())};
}

CNNConvolutionGradientNode::CNNConvolutionGradientNode(NNImageNodePtr source_gradient,
                                                       NNImageNodePtr source_image,
                                                       NNStateNodePtr gradient_state,
                                                       CNNConvolutionDataSourcePtr weights)
    : CNNConvolutionGradientNode(
          "MPSCNNConvolutionGradientNode", std::move(source_gradient), std::move(source_image),
          gradient_state,
          forward_of<CNNConvolutionNode>(gradient_state, "MPSCNNConvolutionGradientNode",
                                         "MPSCNNConvolutionNode"),
          std::move(weights)) {
  if (dynamic_cast<CNNConvolutionTransposeNode*>(gradient_state->owner()) == nullptr) return;
  refuse("expected a state of MPSCNNConvolutionNode but got that of " +
         gradient_state->owner()->description());
}

CNNConvolutionGradientNode::CNNConvolutionGradientNode(const char* kind,
                                                       NNImageNodePtr source_gradient,
                                                       NNImageNodePtr source_image,
                                                       const NNStateNodePtr& gradient_state,
                                                       const CNNConvolutionNode& forward,
                                                       CNNConvolutionDataSourcePtr weights)
    : NNGradientFilterNode({std::move(source_gradient), std::move(source_image)}, {gradient_state}),
      training_style(forward.training_style),
      weights_(weights == nullptr ? forward.data_source() : weights) {
  check_sources(kind);
  label = forward.label;
}

// --- neuron --------------------------------------------------------------------------------------

CNNNeuronNode::CNNNeuronNode(NNImageNodePtr source, NeuronDescriptor descriptor, const char* kind)
    : NNFilterNode({std::move(source)}), descriptor_(std::move(descriptor)), kind_(kind) {
  check_sources(kind);
  add_state(std::make_unique<NNGradientStateNode>());
}

std::vector<NNFilterNodePtr> CNNNeuronNode::make_gradients(const NNImageNodePtr& gradient) {
  return {
      std::make_shared<CNNNeuronGradientNode>(gradient, sources()[0], result_state(), descriptor_)};
}

CNNNeuronGradientNode::CNNNeuronGradientNode(NNImageNodePtr source_gradient,
                                             NNImageNodePtr source_image,
                                             NNStateNodePtr gradient_state,
                                             NeuronDescriptor descriptor)
    : NNGradientFilterNode({std::move(source_gradient), std::move(source_image)}, {gradient_state}),
      descriptor_(std::move(descriptor)) {
  check_sources("MPSCNNNeuronGradientNode");
  label = forward_of<CNNNeuronNode>(gradient_state, "MPSCNNNeuronGradientNode", "MPSCNNNeuronNode")
              .label;
}

// --- pooling -------------------------------------------------------------------------------------

CNNPoolingNode::CNNPoolingNode(NNImageNodePtr source, CNNPoolingType type,
                               const KernelWindow& window)
    : NNFilterNode({std::move(source)}), type_(type), window_(window) {
  check_sources(names_of(type).forward);
  add_state(std::make_unique<NNGradientStateNode>());
}
const char* CNNPoolingNode::kind() const { return names_of(type_).forward; }

std::vector<NNFilterNodePtr> CNNPoolingNode::make_gradients(const NNImageNodePtr& gradient) {
  const auto make = [&]<CNNPoolingType type>() -> NNFilterNodePtr {
    return std::make_shared<CNNPoolingGradientNodeOf<type>>(gradient, sources()[0], result_state(),
                                                            window_);
  };
  switch (type_) {
    case CNNPoolingType::kMax:
      return {make.operator()<CNNPoolingType::kMax>()};
    case CNNPoolingType::kAverage:
      return {make.operator()<CNNPoolingType::kAverage>()};
    case CNNPoolingType::kL2Norm:
      return {make.operator()<CNNPoolingType::kL2Norm>()};
    case CNNPoolingType::kDilatedMax:
      break;
  }
  return {make.operator()<CNNPoolingType::kDilatedMax>()};
}

CNNPoolingGradientNode::CNNPoolingGradientNode(NNImageNodePtr source_gradient,
                                               NNImageNodePtr source_image,
                                               NNStateNodePtr gradient_state, CNNPoolingType type,
                                               const KernelWindow& window)
    : NNGradientFilterNode({std::move(source_gradient), std::move(source_image)}, {gradient_state}),
      type_(type),
      window_(window) {
  const PoolingNames& names = names_of(type);
  check_sources(names.gradient);
  const auto& forward = forward_of<CNNPoolingNode>(gradient_state, names.gradient, names.forward);
  label = forward.label;
  if (forward.type() == type) return;
  throw InvalidArgument("[" + std::string(names.gradient) + "] expected a state of " +
                        names.forward + " but got that of " + forward.description());
}
const char* CNNPoolingGradientNode::kind() const { return names_of(type_).gradient; }

// --- batch normalization -------------------------------------------------------------------------

CNNBatchNormalizationNode::CNNBatchNormalizationNode(NNImageNodePtr source,
                                                     CNNBatchNormalizationDataSourcePtr data_source)
    : NNFilterNode({std::move(source)}), data_source_(std::move(data_source)) {
  check_sources("MPSCNNBatchNormalizationNode");
  if (data_source_ == nullptr) {
    throw InvalidArgument("[MPSCNNBatchNormalizationNode] expected a data source but got none");
  }
  label = data_source_->label();
  add_state(std::make_unique<NNGradientStateNode>());
}

std::vector<NNFilterNodePtr> CNNBatchNormalizationNode::make_gradients(
    const NNImageNodePtr& gradient) {
  return {
      std::make_shared<CNNBatchNormalizationGradientNode>(gradient, sources()[0], result_state())};
}

CNNBatchNormalizationGradientNode::CNNBatchNormalizationGradientNode(NNImageNodePtr source_gradient,
                                                                     NNImageNodePtr source_image,
                                                                     NNStateNodePtr gradient_state)
    : NNGradientFilterNode({std::move(source_gradient), std::move(source_image)},
                           {gradient_state}) {
  constexpr const char* kKind = "MPSCNNBatchNormalizationGradientNode";
  check_sources(kKind);
  const auto& forward =
      forward_of<CNNBatchNormalizationNode>(gradient_state, kKind, "MPSCNNBatchNormalizationNode");
  training_style = forward.training_style;
  label = forward.label;
}

// --- softmax -------------------------------------------------------------------------------------

CNNSoftMaxNode::CNNSoftMaxNode(NNImageNodePtr source, bool logarithm)
    : NNFilterNode({std::move(source)}), logarithm_(logarithm) {
  check_sources(logarithm ? "MPSCNNLogSoftMaxNode" : "MPSCNNSoftMaxNode");
  add_state(std::make_unique<NNGradientStateNode>());
}

std::vector<NNFilterNodePtr> CNNSoftMaxNode::make_gradients(const NNImageNodePtr& gradient) {
  if (logarithm_) {
    return {std::make_shared<CNNLogSoftMaxGradientNode>(gradient, result_image(), result_state())};
  }
  return {std::make_shared<CNNSoftMaxGradientNode>(gradient, result_image(), result_state())};
}

CNNSoftMaxGradientNode::CNNSoftMaxGradientNode(NNImageNodePtr source_gradient,
                                               NNImageNodePtr source_image,
                                               NNStateNodePtr gradient_state, bool logarithm)
    : NNGradientFilterNode({std::move(source_gradient), std::move(source_image)}, {gradient_state}),
      logarithm_(logarithm) {
  const char* const expected = logarithm ? "MPSCNNLogSoftMaxNode" : "MPSCNNSoftMaxNode";
  const char* const own = CNNSoftMaxGradientNode::kind();
  check_sources(own);
  const auto& forward = forward_of<CNNSoftMaxNode>(gradient_state, own, expected);
  label = forward.label;
  if (forward.logarithm() == logarithm) return;
  refuse(std::string("expected a state of ") + expected + " but got that of " +
         forward.description());
}

// --- loss ------------------------------------------------------------------------------------

CNNLossNode::CNNLossNode(NNImageNodePtr source, CNNLossDescriptor descriptor)
    : NNFilterNode({std::move(source)}), descriptor_(descriptor) {
  check_sources("MPSCNNLossNode");
  own(labels_);
}

std::shared_ptr<NNLabelsNode> CNNLossNode::input_labels() { return {shared_from_this(), &labels_}; }

}  // namespace traingraph::mps
