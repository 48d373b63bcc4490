// Constructors and gradient nodes of the convolution, fully connected, batch normalization and loss
// nodes.
#include <traingraph/mps/filter_nodes.h>

#include <traingraph/mps/convolution_transpose_nodes.h>

#include "mps/nodes/graph_plan.h"
#include "mps/nodes/node_support.h"

namespace traingraph::mps {
namespace {

const CNNConvolutionNode& convolution_of(const NNStateNodePtr& state) {
  return forward_of<CNNConvolutionNode>(
      state, "MPSCNNConvolutionGradientNode", "MPSCNNConvolutionNode",
      [](const CNNConvolutionNode& node) {
        return dynamic_cast<const CNNConvolutionTransposeNode*>(&node) == nullptr;
      });
}

const CNNBatchNormalizationNode& batch_normalization_of(const NNStateNodePtr& state) {
  return forward_of<CNNBatchNormalizationNode>(state, "MPSCNNBatchNormalizationGradientNode",
                                               "MPSCNNBatchNormalizationNode");
}

}  // namespace

// --- convolution ---------------------------------------------------------------------------------

CNNConvolutionNode::CNNConvolutionNode(NNImageNodePtr source, CNNConvolutionDataSourcePtr weights)
    : SourceNode("MPSCNNConvolutionNode", std::move(source), std::move(weights),
                 std::make_unique<CNNConvolutionGradientStateNode>()) {}

std::shared_ptr<CNNConvolutionGradientStateNode> CNNConvolutionNode::convolution_gradient_state() {
  return std::static_pointer_cast<CNNConvolutionGradientStateNode>(result_state());
}

std::vector<NNFilterNodePtr> CNNConvolutionNode::make_gradients(const NNImageNodePtr& gradient) {
  return {std::make_shared<CNNConvolutionGradientNode>(gradient, sources()[0], result_state(),
                                                       data_source())};
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
    : CNNConvolutionGradientNode("MPSCNNConvolutionGradientNode", std::move(source_gradient),
                                 std::move(source_image), gradient_state,
                                 convolution_of(gradient_state), std::move(weights)) {}

CNNConvolutionGradientNode::CNNConvolutionGradientNode(const char* kind,
                                                       NNImageNodePtr source_gradient,
                                                       NNImageNodePtr source_image,
                                                       NNStateNodePtr gradient_state,
                                                       const CNNConvolutionNode& forward,
                                                       CNNConvolutionDataSourcePtr weights)
    : NNGradientFilterNode(kind, std::move(source_gradient), std::move(source_image),
                           std::move(gradient_state), forward),
      training_style(forward.training_style),
      weights_(weights == nullptr ? forward.data_source() : weights) {}

// --- batch normalization -------------------------------------------------------------------------

CNNBatchNormalizationNode::CNNBatchNormalizationNode(NNImageNodePtr source,
                                                     CNNBatchNormalizationDataSourcePtr data_source)
    : SourceNode("MPSCNNBatchNormalizationNode", std::move(source), std::move(data_source),
                 std::make_unique<NNGradientStateNode>()) {}

std::vector<NNFilterNodePtr> CNNBatchNormalizationNode::make_gradients(
    const NNImageNodePtr& gradient) {
  return {
      std::make_shared<CNNBatchNormalizationGradientNode>(gradient, sources()[0], result_state())};
}

CNNBatchNormalizationGradientNode::CNNBatchNormalizationGradientNode(NNImageNodePtr source_gradient,
                                                                     NNImageNodePtr source_image,
                                                                     NNStateNodePtr gradient_state)
    : NNGradientFilterNode("MPSCNNBatchNormalizationGradientNode", std::move(source_gradient),
                           std::move(source_image), gradient_state,
                           batch_normalization_of(gradient_state)),
      training_style(batch_normalization_of(gradient_state).training_style) {}

// --- loss ------------------------------------------------------------------------------------

CNNLossNode::CNNLossNode(NNImageNodePtr source, CNNLossDescriptor descriptor)
    : NNFilterNode({std::move(source)}), descriptor_(descriptor) {
  check_sources("MPSCNNLossNode");
  own(labels_);
}

std::shared_ptr<NNLabelsNode> CNNLossNode::input_labels() { return {owner(), &labels_}; }

}  // namespace traingraph::mps
