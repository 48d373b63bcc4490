// ForwardStep, GradientStep and TrainedGradientStep, the base classes of steps, and the steps of
// the nodes of filter_nodes.h except batch normalization.
#include <traingraph/errors.h>
#include <traingraph/mps/filter_nodes.h>

#include "mps/nodes/node_support.h"
#include "mps/nodes/weighted_steps.h"

namespace traingraph::mps {

// --- forward -------------------------------------------------------------------------------------

ForwardStep::ForwardStep(GraphPlan& plan, NNFilterNode& node, std::shared_ptr<CNNKernel> kernel_in)
    : kernel(std::move(kernel_in)),
      source_(plan.image(*node.sources()[0])),
      result_(plan.image(*node.result_image())) {
  if (const NNStateNodePtr state = node.result_state()) state_ = plan.state(*state);
  if (!node.label.empty()) kernel->label = node.label;
  kernel->set_padding(node.padding());
}

void ForwardStep::count_reads(GraphPlan& plan) { ++plan.images[source_].reads; }

void ForwardStep::prepare(const ImageBatch&, const ImageBatch&) {}

void ForwardStep::make_states(GraphEncoding& e) {
  if (state_ == GraphPlan::kNone || !e.plan.states[state_].is_read) return;
  e.states[state_] = kernel->result_state_batch(e.images[source_], e.owner_of_states(state_));
  e.set_state_reads(state_);
}

void ForwardStep::encode(GraphEncoding& e) {
  const ImageBatch& x = e.images[source_];
  const ImageDescriptor result = kernel->destination_image_descriptor(x);
  const ImageBatch& y = e.make(result_, result, x);
  prepare(x, y);
  make_states(e);
  kernel->encode_batch(e.buffer, x, e.states_at(state_), y);
}

// --- gradient ------------------------------------------------------------------------------------

GradientStep::GradientStep(GraphPlan& plan, NNFilterNode& node,
                           std::shared_ptr<CNNGradientKernel> kernel_in)
    : kernel(std::move(kernel_in)),
      state_(plan.state(*node.source_states()[0])),
      gradient_(plan.image(*node.sources()[0])),
      source_(plan.image(*node.sources()[1])),
      result_(plan.image(*node.result_image())) {
  if (!node.label.empty()) kernel->label = node.label;
}

void GradientStep::count_reads(GraphPlan& plan) {
  ++plan.images[gradient_].reads;
  ++plan.images[source_].reads;
  ++plan.states[state_].reads;
}

void GradientStep::encode(GraphEncoding& e) {
  const ImageBatch &dy = e.images[gradient_], &x = e.images[source_];
  const ImageDescriptor result = kernel->destination_image_descriptor(dy, x, e.states[state_]);
  const ImageBatch& dx = e.make(result_, result, x);
  kernel->encode_batch(e.buffer, dy, x, e.states[state_], dx);
}

TrainedGradientStep::TrainedGradientStep(GraphPlan& plan, NNFilterNode& node,
                                         std::shared_ptr<CNNGradientKernel> kernel_in,
                                         NNTrainingStyle style)
    : GradientStep(plan, node, std::move(kernel_in)), style_(style) {
  if (style_ == NNTrainingStyle::kUpdateDeviceCPU) plan.states[state_].is_permanent = true;
}

std::size_t TrainedGradientStep::updated_state() const {
  return style_ == NNTrainingStyle::kUpdateDeviceNone ? GraphPlan::kNone : state_;
}

namespace {

std::shared_ptr<CNNConvolution> make_convolution(const Device& device,
                                                 const CNNConvolutionDataSourcePtr& weights,
                                                 bool full) {
  if (full) return std::make_shared<CNNFullyConnected>(device, weights);
  return std::make_shared<CNNConvolution>(device, weights);
}

class LossStep final : public GraphStep {
 public:
  LossStep(GraphPlan& plan, CNNLossNode& node)
      : kernel_(plan.device, node.descriptor()),
        source_(plan.image(*node.sources()[0])),
        result_(plan.image(*node.result_image())),
        labels_(plan.state(*node.input_labels())) {
    refuse_own_policy(node, "a loss has the size of its source");
    kernel_.label = node.label;
  }
  void count_reads(GraphPlan& plan) override { ++plan.images[source_].reads; }
  void encode(GraphEncoding& e) override {
    const ImageBatch& x = e.images[source_];
    CNNLossLabelsBatch labels;
    for (const StatePtr& state : e.states[labels_]) {
      labels.push_back(std::dynamic_pointer_cast<CNNLossLabels>(state));
      if (labels.back() != nullptr) continue;
      throw InvalidArgument("[" + kernel_.description() + "] expected MPSCNNLossLabels but got " +
                            (state == nullptr ? "none" : state->description()));
    }
    kernel_.encode_batch(e.buffer, x, labels, e.make(result_, x[0]->descriptor(), x));
  }

 private:
  CNNLoss kernel_;
  std::size_t source_, result_, labels_;
};

}  // namespace

std::unique_ptr<GraphStep> CNNConvolutionNode::make_step(GraphPlan& plan) {
  return std::make_unique<WeightedStep>(plan, *this,
                                        make_convolution(plan.device, data_source(), is_full()));
}

std::unique_ptr<GraphStep> CNNConvolutionGradientNode::make_step(GraphPlan& plan) {
  std::shared_ptr<CNNConvolutionGradient> kernel;
  if (static_cast<CNNConvolutionNode*>(source_states()[0]->owner())->is_full()) {
    kernel = std::make_shared<CNNFullyConnectedGradient>(plan.device, weights_);
  } else {
    kernel = std::make_shared<CNNConvolutionGradient>(plan.device, weights_);
  }
  return std::make_unique<WeightedGradientStep>(plan, *this, kernel);
}

std::unique_ptr<GraphStep> CNNLossNode::make_step(GraphPlan& plan) {
  return std::make_unique<LossStep>(plan, *this);
}

}  // namespace traingraph::mps
