// Nodes and steps of instance and group normalization, with the update of gamma and beta by the
// data source.
#include <traingraph/mps/normalization_nodes.h>

#include "mps/nodes/node_steps.h"
#include "mps/nodes/node_support.h"

namespace traingraph::mps {
namespace {

class NormalizationStep final : public ForwardStep {
 public:
  using ForwardStep::ForwardStep;
  void reload() override {
    static_cast<CNNInstanceNormalization&>(*kernel).reload_gamma_and_beta_from_data_source();
  }
};

// The gradient kernel reads the forward kernel's gamma, so that an update reaches both.
class NormalizationGradientStep final : public TrainedGradientStep {
 public:
  NormalizationGradientStep(GraphPlan& plan, NNGradientFilterNode& node,
                            std::shared_ptr<CNNGradientKernel> gradient, NNTrainingStyle style)
      : TrainedGradientStep(plan, node, std::move(gradient), style),
        forward_(std::static_pointer_cast<CNNInstanceNormalization>(
            static_cast<NormalizationStep*>(plan.step(node.source_states()[0]->owner()))->kernel)) {
    if (style_ != NNTrainingStyle::kUpdateDeviceNone) plan.image_by_image = true;
  }

  void count_reads(GraphPlan& plan) override {
    GradientStep::count_reads(plan);
    if (style_ == NNTrainingStyle::kUpdateDeviceGPU) ++plan.states[state_].reads;
  }

  // Its states are of one image each.
  bool repeats() const override { return style_ == NNTrainingStyle::kUpdateDeviceNone; }

  void visit_owned(OwnershipVisitor& visitor) const override {
    GradientStep::visit_owned(visitor);
    visitor(forward_);
  }

  void update(GraphEncoding& e) override {
    const StateBatch& states = e.states[state_];
    const CNNInstanceNormalizationDataSourcePtr& source = forward_->data_source();
    if (style_ == NNTrainingStyle::kUpdateDeviceGPU) {
      if (const auto updated = source->update_gamma_and_beta(e.buffer, states)) {
        forward_->reload_gamma_and_beta(e.buffer, *updated);
      }
    }
    if (style_ == NNTrainingStyle::kUpdateDeviceCPU) {
      e.completed.push_back([forward = forward_, source, states] {
        if (source->update_gamma_and_beta(states)) {
          forward->reload_gamma_and_beta_from_data_source();
        }
      });
    }
  }

 private:
  std::shared_ptr<CNNInstanceNormalization> forward_;
};

template <class Pair>
const ImageNormalizationNode<Pair>& normalization_of(const NNStateNodePtr& state) {
  return forward_of<ImageNormalizationNode<Pair>>(state, Pair::kGradient, Pair::kForward);
}

}  // namespace

template <class Pair>
ImageNormalizationNode<Pair>::ImageNormalizationNode(
    NNImageNodePtr source, std::shared_ptr<typename Pair::Source> data_source)
    : SourceNode<typename Pair::Source>(Pair::kForward, std::move(source), std::move(data_source),
                                        std::make_unique<NNGradientStateNode>()) {}

template <class Pair>
std::vector<NNFilterNodePtr> ImageNormalizationNode<Pair>::make_gradients(
    const NNImageNodePtr& gradient) {
  return {std::make_shared<ImageNormalizationGradientNode<Pair>>(gradient, this->sources()[0],
                                                                 this->result_state())};
}

template <class Pair>
std::unique_ptr<GraphStep> ImageNormalizationNode<Pair>::make_step(GraphPlan& plan) {
  return std::make_unique<NormalizationStep>(
      plan, *this, std::make_shared<typename Pair::Kernel>(plan.device, this->data_source()));
}

template <class Pair>
ImageNormalizationGradientNode<Pair>::ImageNormalizationGradientNode(NNImageNodePtr source_gradient,
                                                                     NNImageNodePtr source_image,
                                                                     NNStateNodePtr gradient_state)
    : NNGradientFilterNode(Pair::kGradient, std::move(source_gradient), std::move(source_image),
                           gradient_state, normalization_of<Pair>(gradient_state)),
      training_style(normalization_of<Pair>(gradient_state).training_style) {}

template <class Pair>
std::unique_ptr<GraphStep> ImageNormalizationGradientNode<Pair>::make_step(GraphPlan& plan) {
  return std::make_unique<NormalizationGradientStep>(
      plan, *this, std::make_shared<typename Pair::GradientKernel>(plan.device), training_style);
}

template class ImageNormalizationNode<InstanceNormalizationPair>;
template class ImageNormalizationGradientNode<InstanceNormalizationPair>;
template class ImageNormalizationNode<GroupNormalizationPair>;
template class ImageNormalizationGradientNode<GroupNormalizationPair>;

}  // namespace traingraph::mps
