// Nodes with a data source.
#include <traingraph/mps/convolution_transpose_nodes.h>
#include <traingraph/mps/normalization_nodes.h>

#include "mps/description/describe_nodes.h"

namespace traingraph::mps {
namespace {

using Weights = CNNConvolutionDataSourcePtr;

template <class T, class Parent>
DescribingNode<T, Parent> convolution(const char* name, const char* summary) {
  DescribingNode<T, Parent> described(name, summary);
  described
      .takes({source_argument(), argument<Weights>("weights", "An MPSCNNConvolutionDataSource.")})
      .template made_of<NNImageNodePtr, Weights>("The weights are a data source.");
  return described;
}

template <class T, class Parent>
DescribingNode<T, Parent> convolution_gradient(const char* name, const char* summary,
                                               const char* state = "convolution_gradient_state") {
  DescribingNode<T, Parent> described(name, summary);
  described.takes(gradient_arguments(state))
      .takes({optional_argument<Weights>("weights", "An MPSCNNConvolutionDataSource.")})
      .template made_of<NNImageNodePtr, NNImageNodePtr, NNStateNodePtr, Weights>(
          "Without weights: the forward node's. Errors: the state of another kind of node.");
  return described;
}

void describe_convolutions(Classes& classes) {
  using Node = CNNConvolutionNode;
  using Gradient = CNNConvolutionGradientNode;
  constexpr const char* kBoth =
      "Gradients by data and weights; calls the data source for an update.";
  classes.insert(
      classes.end(),
      {convolution<Node, NNFilterNode>("MPSCNNConvolutionNode", "MPSCNNConvolution in a graph.")
           .settable("training_style", &Node::training_style, kTrainingStyle)
           .property("convolution_gradient_state", &Node::convolution_gradient_state,
                     "The state that the gradient node reads."),
       convolution<CNNFullyConnectedNode, Node>("MPSCNNFullyConnectedNode",
                                                "MPSCNNFullyConnected in a graph."),
       convolution_gradient<Gradient, NNGradientFilterNode>("MPSCNNConvolutionGradientNode", kBoth)
           .settable("training_style", &Gradient::training_style, kTrainingStyle),
       convolution_gradient<CNNFullyConnectedGradientNode, Gradient>(
           "MPSCNNFullyConnectedGradientNode", "The same for MPSCNNFullyConnectedNode."),
       convolution_gradient<CNNConvolutionTransposeGradientNode, Gradient>(
           "MPSCNNConvolutionTransposeGradientNode", kBoth,
           "convolution_transpose_gradient_state")});
  using Transpose = CNNConvolutionTransposeNode;
  classes.push_back(
      DescribingNode<Transpose, Node>("MPSCNNConvolutionTransposeNode",
                                      "MPSCNNConvolutionTranspose in a graph.")
          .takes({source_argument(),
                  optional_argument<NNStateNodePtr>(
                      "convolution_gradient_state",
                      "The gradient state of the convolution that it transposes."),
                  argument<Weights>("weights", "An MPSCNNConvolutionDataSource.")})
          .made_of<NNImageNodePtr, NNStateNodePtr, Weights>(
              "Mirrors the convolution of that state, or one with the padding policy.")
          .property(
              "convolution_gradient_state",
              [](const Transpose& node) -> std::shared_ptr<CNNConvolutionGradientStateNode> {
                throw Unsupported("[" + node.description() +
                                  "] convolution_gradient_state: use result_state");
              },
              "Errors: always; result_state is what the gradient node needs."));
}

template <class T, class Source>
DescribingNode<T> normalization(const char* name, const char* summary, const char* text) {
  DescribingNode<T> described(name, summary);
  described.takes({source_argument(), argument<Source>("data_source", text)})
      .template made_of<NNImageNodePtr, Source>(text)
      .settable("training_style", &T::training_style, kTrainingStyle);
  return described;
}
template <class T>
ClassDescription normalization_gradient(const char* name, const char* summary) {
  return gradient_node<T>(name, summary)
      .settable("training_style", &T::training_style, kTrainingStyle);
}

// Instance or group normalization.
template <class Pair>
void describe_image_normalization(Classes& classes) {
  using Source = std::shared_ptr<typename Pair::Source>;
  classes.push_back(normalization<ImageNormalizationNode<Pair>, Source>(
      Pair::kForward, "The kernel in a graph.", "Gamma and beta."));
  classes.push_back(normalization_gradient<ImageNormalizationGradientNode<Pair>>(
      Pair::kGradient, "The gradient kernel in a graph; calls the data source for an update."));
}

}  // namespace

void describe_source_nodes(Classes& classes) {
  describe_convolutions(classes);
  using Node = CNNBatchNormalizationNode;
  classes.push_back(
      normalization<Node, CNNBatchNormalizationDataSourcePtr>(
          "MPSCNNBatchNormalizationNode", "Normalizes by the batch where it is trained.",
          "Gamma, beta and statistics.")
          .settable("flags", &Node::flags, "When the statistics of the batch are used."));
  classes.push_back(normalization_gradient<CNNBatchNormalizationGradientNode>(
      "MPSCNNBatchNormalizationGradientNode",
      "Both gradient kernels; calls the data source for an update."));
  describe_image_normalization<InstanceNormalizationPair>(classes);
  describe_image_normalization<GroupNormalizationPair>(classes);
}

}  // namespace traingraph::mps
