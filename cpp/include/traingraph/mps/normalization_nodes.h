#pragma once

#include <memory>

#include <traingraph/mps/instance_normalization.h>
#include <traingraph/mps/nodes.h>

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

// The data source is asked for an update when its gradient node is part of a graph.
template <class Pair>
class TRAINGRAPH_API ImageNormalizationNode final : public NNFilterNode {
 public:
  using Source = std::shared_ptr<typename Pair::Source>;
  ImageNormalizationNode(NNImageNodePtr source, Source data_source);
  const char* kind() const override { return Pair::kForward; }
  NNTrainingStyle training_style = NNTrainingStyle::kUpdateDeviceGPU;
  void visit_owned(OwnershipVisitor& visitor) const override {
    NNFilterNode::visit_owned(visitor);
    visitor(data_source_);
  }
  std::unique_ptr<GraphStep> make_step(GraphPlan& plan) override;

 protected:
  std::vector<NNFilterNodePtr> make_gradients(const NNImageNodePtr& source_gradient) override;

 private:
  Source data_source_;
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
