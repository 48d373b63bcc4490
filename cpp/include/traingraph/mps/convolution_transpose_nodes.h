#pragma once

#include <traingraph/mps/convolution_transpose.h>
#include <traingraph/mps/filter_nodes.h>

namespace traingraph::mps {

// With a convolution's state it takes the size and the offset of that convolution's source back.
class TRAINGRAPH_API CNNConvolutionTransposeNode final : public CNNConvolutionNode {
 public:
  // Raises InvalidArgument for the state of another kind of node; none: the padding policy.
  CNNConvolutionTransposeNode(NNImageNodePtr source, const NNStateNodePtr& convolution_state,
                              CNNConvolutionDataSourcePtr weights);
  const char* kind() const override { return "MPSCNNConvolutionTransposeNode"; }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 protected:
  std::vector<NNFilterNodePtr> make_gradients(const NNImageNodePtr& source_gradient) override;
};

class TRAINGRAPH_API CNNConvolutionTransposeGradientNode final : public CNNConvolutionGradientNode {
 public:
  CNNConvolutionTransposeGradientNode(NNImageNodePtr source_gradient, NNImageNodePtr source_image,
                                      NNStateNodePtr gradient_state,
                                      CNNConvolutionDataSourcePtr weights);
  const char* kind() const override { return "MPSCNNConvolutionTransposeGradientNode"; }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;
};

}  // namespace traingraph::mps
