// Steps of convolution and transposed convolution: forward with reload of the weights, and gradient
// with their update.
#pragma once

#include <memory>
#include <utility>

#include <traingraph/mps/filter_nodes.h>

#include "mps/nodes/node_steps.h"

namespace traingraph::mps {

class WeightedStep : public ForwardStep {
 public:
  using ForwardStep::ForwardStep;
  bool has_biases() const override {
    return static_cast<const WeightForwardKernel&>(*kernel).has_biases();
  }
  void reload() override {
    static_cast<WeightForwardKernel&>(*kernel).reload_weights_and_biases_from_data_source();
  }
};

// Reads the forward kernel's weights, so that an update reaches both.
class WeightedGradientStep final : public TrainedGradientStep {
 public:
  WeightedGradientStep(GraphPlan& plan, CNNConvolutionGradientNode& node,
                       const std::shared_ptr<WeightGradientKernel>& gradient)
      : TrainedGradientStep(plan, node, gradient, node.training_style),
        source_(node.data_source()),
        forward_(std::static_pointer_cast<WeightForwardKernel>(
            static_cast<ForwardStep*>(plan.step(node.source_states()[0]->owner()))->kernel)) {
    gradient->share_weights(*forward_);
  }

  void count_reads(GraphPlan& plan) override {
    GradientStep::count_reads(plan);
    if (style_ == NNTrainingStyle::kUpdateDeviceGPU) ++plan.states[state_].reads;
  }

  void visit_owned(OwnershipVisitor& visitor) const override {
    GradientStep::visit_owned(visitor);
    visitor(source_);
    visitor(forward_);
  }

  void update(GraphEncoding& e) override {
    auto gradient = std::static_pointer_cast<CNNConvolutionGradientState>(e.states[state_][0]);
    if (style_ == NNTrainingStyle::kUpdateDeviceGPU) {
      const auto now = forward_->weights_state();
      const auto updated = source_->update(e.buffer, gradient, now);
      if (updated != nullptr && updated != now) {
        forward_->reload_weights_and_biases(e.buffer, *updated);
      }
      return;
    }
    e.completed.push_back([source = source_, forward = forward_, gradient] {
      if (source->update(gradient, forward->weights_state())) {
        forward->reload_weights_and_biases_from_data_source();
      }
    });
  }

 private:
  CNNConvolutionDataSourcePtr source_;
  std::shared_ptr<WeightForwardKernel> forward_;
};

}  // namespace traingraph::mps
