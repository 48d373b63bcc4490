#pragma once

#include <memory>

#include <traingraph/mps/filter_nodes.h>
#include <traingraph/mps/instance_normalization.h>

// Instance and group normalization, which are two names of the same nodes.
namespace traingraph::mps {

struct TRAINGRAPH_API InstanceNormalizationPair {
  using Kernel = CNNInstanceNormalization;
  using GradientKernel = CNNInstanceNormalizationGradient;
  using Source = CNNInstanceNormalizationDataSource;
  static constexpr const char* kForward = "MPSCNNInstanceNormalizationNode";
  static constexpr const char* kGradient = "MPSCNNInstanceNormalizationGradientNode";
};
struct TRAINGRAPH_API GroupNormalizationPair {
  using Kernel = CNNGroupNormalization;
  using GradientKernel = CNNGroupNormalizationGradient;
  using Source = CNNGroupNormalizationDataSource;
  static constexpr const char* kForward = "MPSCNNGroupNormalizationNode";
  static constexpr const char* kGradient = "MPSCNNGroupNormalizationGradientNode";
};

template <class Pair>
class TRAINGRAPH_API ImageNormalizationNode final : public SourceNode<typename Pair::Source> {
 public:
  ImageNormalizationNode(NNImageNodePtr source, std::shared_ptr<typename Pair::Source> data_source);
  const char* kind() const override { return Pair::kForward; }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 protected:
  std::vector<NNFilterNodePtr> make_gradients(const NNImageNodePtr& source_gradient) override;
};

template <class Pair>
class TRAINGRAPH_API ImageNormalizationGradientNode final : public NNGradientFilterNode {
 public:
  ImageNormalizationGradientNode(NNImageNodePtr source_gradient, NNImageNodePtr source_image,
                                 NNStateNodePtr gradient_state);
  const char* kind() const override { return Pair::kGradient; }
  NNTrainingStyle training_style;
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;
};

using CNNInstanceNormalizationNode = ImageNormalizationNode<InstanceNormalizationPair>;
using CNNInstanceNormalizationGradientNode =
    ImageNormalizationGradientNode<InstanceNormalizationPair>;
using CNNGroupNormalizationNode = ImageNormalizationNode<GroupNormalizationPair>;
using CNNGroupNormalizationGradientNode = ImageNormalizationGradientNode<GroupNormalizationPair>;

}  // namespace traingraph::mps
