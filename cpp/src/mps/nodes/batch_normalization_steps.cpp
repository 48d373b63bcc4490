// Steps of batch normalization: the forward node encodes statistics and normalization, the gradient
// node both gradients and the update of its data source.
#include <traingraph/errors.h>
#include <traingraph/mps/filter_nodes.h>

#include "mps/nodes/node_steps.h"

namespace traingraph::mps {
namespace {

using BatchState = std::shared_ptr<CNNBatchNormalizationState>;

class BatchNormalizationStep final : public ForwardStep {
 public:
  BatchNormalizationStep(GraphPlan& plan, CNNBatchNormalizationNode& node,
                         const CNNBatchNormalizationDataSourcePtr& source)
      : ForwardStep(plan, node, std::make_shared<CNNBatchNormalization>(plan.device, source)),
        flags_(node.flags),
        who_(node.description()),
        statistics_(plan.device) {
    statistics_.label = kernel->label;
  }

  void count_reads(GraphPlan& plan) override {
    const bool is_read = plan.states[state_].is_read;
    if (is_read && flags_ == CNNBatchNormalizationFlags::kNever) {
      throw InvalidArgument("[" + who_ +
                            "] expected flags that calculate statistics, for its state is read, "
                            "but got CALCULATE_STATISTICS_NEVER");
    }
    trains_ = is_read || flags_ == CNNBatchNormalizationFlags::kAlways;
    plan.images[source_].reads += trains_ ? 2 : 1;
    if (trains_) plan.states[state_].reads += 2;
  }

  void encode(GraphEncoding& e) override {
    const ImageBatch& x = e.images[source_];
    const ImageBatch& y = e.make(result_, kernel->destination_image_descriptor(x), x);
    if (!trains_) {
      kernel->encode_batch(e.buffer, x, y);
      return;
    }
    e.states[state_] = kernel->result_state_batch(x, e.owner_of_states(state_));
    e.set_state_reads(state_);
    auto& state = static_cast<CNNBatchNormalizationState&>(*e.states[state_][0]);
    statistics_.encode_batch(e.buffer, x, state);
    static_cast<CNNBatchNormalization&>(*kernel).encode_batch(e.buffer, x, state, y);
  }

  void reload() override {
    auto& normalization = static_cast<CNNBatchNormalization&>(*kernel);
    normalization.reload_gamma_and_beta_from_data_source();
    normalization.reload_mean_and_variance_from_data_source();
  }

 private:
  CNNBatchNormalizationFlags flags_;
  std::string who_;
  CNNBatchNormalizationStatistics statistics_;
  bool trains_ = false;
};

class BatchNormalizationGradientStep final : public TrainedGradientStep {
 public:
  BatchNormalizationGradientStep(GraphPlan& plan, CNNBatchNormalizationGradientNode& node)
      : TrainedGradientStep(plan, node,
                            std::make_shared<CNNBatchNormalizationGradient>(plan.device),
                            node.training_style),
        statistics_(plan.device),
        forward_(std::static_pointer_cast<CNNBatchNormalization>(
            static_cast<BatchNormalizationStep*>(plan.step(node.source_states()[0]->owner()))
                ->kernel)) {
    statistics_.label = kernel->label;
  }

  void count_reads(GraphPlan& plan) override {
    plan.images[gradient_].reads += 2;
    plan.images[source_].reads += 2;
    plan.states[state_].reads += style_ == NNTrainingStyle::kUpdateDeviceGPU ? 4 : 2;
  }

  void encode(GraphEncoding& e) override {
    const auto state = std::static_pointer_cast<CNNBatchNormalizationState>(e.states[state_][0]);
    statistics_.encode_batch(e.buffer, e.images[gradient_], e.images[source_], *state);
    GradientStep::encode(e);
  }

  void visit_owned(OwnershipVisitor& visitor) const override {
    GradientStep::visit_owned(visitor);
    visitor(forward_);
  }

  void update(GraphEncoding& e) override {
    const auto state = std::static_pointer_cast<CNNBatchNormalizationState>(e.states[state_][0]);
    const CNNBatchNormalizationDataSourcePtr& source = forward_->data_source();
    if (style_ == NNTrainingStyle::kUpdateDeviceGPU) {
      if (const auto updated = source->update_gamma_and_beta(e.buffer, state)) {
        forward_->reload_gamma_and_beta(e.buffer, *updated);
      }
      if (const auto updated = source->update_mean_and_variance(e.buffer, state)) {
        forward_->reload_mean_and_variance(e.buffer, *updated);
      }
    }
    if (style_ == NNTrainingStyle::kUpdateDeviceCPU) {
      e.completed.push_back([forward = forward_, source, state] {
        if (source->update_gamma_and_beta(state)) forward->reload_gamma_and_beta_from_data_source();
        if (source->update_mean_and_variance(state)) {
          forward->reload_mean_and_variance_from_data_source();
        }
      });
    }
  }

 private:
  CNNBatchNormalizationStatisticsGradient statistics_;
  std::shared_ptr<CNNBatchNormalization> forward_;
};

}  // namespace

std::unique_ptr<GraphStep> CNNBatchNormalizationNode::make_step(GraphPlan& plan) {
  return std::make_unique<BatchNormalizationStep>(plan, *this, data_source());
}
std::unique_ptr<GraphStep> CNNBatchNormalizationGradientNode::make_step(GraphPlan& plan) {
  return std::make_unique<BatchNormalizationGradientStep>(plan, *this);
}

}  // namespace traingraph::mps
