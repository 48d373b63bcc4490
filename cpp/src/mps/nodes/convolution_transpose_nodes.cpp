// Nodes of transposed convolution and its gradient; a forward node with a convolution's state
// mirrors that convolution's size and offset.
#include <traingraph/mps/convolution_transpose_nodes.h>

#include "mps/nodes/node_support.h"
#include "mps/nodes/weighted_steps.h"

namespace traingraph::mps {
namespace {

constexpr const char* kForward = "MPSCNNConvolutionTransposeNode";
constexpr const char* kGradient = "MPSCNNConvolutionTransposeGradientNode";

using Transpose = CNNConvolutionTranspose;

// Mirrors the convolution whose state the node has.
class TransposeStep final : public WeightedStep {
 public:
  TransposeStep(GraphPlan& plan, NNFilterNode& node, std::shared_ptr<CNNKernel> kernel_in)
      : WeightedStep(plan, node, std::move(kernel_in)) {
    if (!node.source_states().empty()) convolution_ = plan.state(*node.source_states()[0]);
  }

  void encode(GraphEncoding& e) override {
    if (convolution_ == GraphPlan::kNone) {
      WeightedStep::encode(e);
      return;
    }
    const ImageBatch& x = e.images[source_];
    const ImageDescriptor result =
        static_cast<Transpose&>(*kernel).mirror(x, e.states[convolution_]);
    const ImageBatch& y = e.make(result_, result, x);
    make_states(e);
    kernel->encode_batch(e.buffer, x, e.states[state_], y);
  }

 private:
  std::size_t convolution_ = GraphPlan::kNone;
};

std::vector<NNStateNodePtr> chained(const NNStateNodePtr& state) {
  if (state == nullptr) return {};
  forward_of<CNNConvolutionNode>(
      state, kForward, "MPSCNNConvolutionNode", [](const CNNConvolutionNode& node) {
        return dynamic_cast<const CNNConvolutionTransposeNode*>(&node) == nullptr;
      });
  return {state};
}

}  // namespace

CNNConvolutionTransposeNode::CNNConvolutionTransposeNode(NNImageNodePtr source,
                                                         const NNStateNodePtr& convolution_state,
                                                         CNNConvolutionDataSourcePtr weights)
    : CNNConvolutionNode(kForward, std::move(source), std::move(weights),
                         std::make_unique<CNNConvolutionTransposeGradientStateNode>(),
                         chained(convolution_state)) {}

std::vector<NNFilterNodePtr> CNNConvolutionTransposeNode::make_gradients(
    const NNImageNodePtr& gradient) {
  return {std::make_shared<CNNConvolutionTransposeGradientNode>(gradient, sources()[0],
                                                                result_state(), data_source())};
}

std::unique_ptr<GraphStep> CNNConvolutionTransposeNode::make_step(GraphPlan& plan) {
  return std::make_unique<TransposeStep>(plan, *this,
                                         std::make_shared<Transpose>(plan.device, data_source()));
}

CNNConvolutionTransposeGradientNode::CNNConvolutionTransposeGradientNode(
    NNImageNodePtr source_gradient, NNImageNodePtr source_image, NNStateNodePtr gradient_state,
    CNNConvolutionDataSourcePtr weights)
    : CNNConvolutionGradientNode(
          kGradient, std::move(source_gradient), std::move(source_image), gradient_state,
          forward_of<CNNConvolutionTransposeNode>(gradient_state, kGradient, kForward),
          std::move(weights)) {}

std::unique_ptr<GraphStep> CNNConvolutionTransposeGradientNode::make_step(GraphPlan& plan) {
  return std::make_unique<WeightedGradientStep>(
      plan, *this, std::make_shared<CNNConvolutionTransposeGradient>(plan.device, data_source()));
}

}  // namespace traingraph::mps
