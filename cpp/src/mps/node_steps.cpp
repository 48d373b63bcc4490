#include <traingraph/errors.h>
#include <traingraph/mps/filter_nodes.h>
#include <traingraph/mps/softmax.h>

#include "mps/graph_plan.h"
#include "mps/node_steps.h"

// What a graph encodes for each node that has one forward and one gradient kernel, for the loss and
// for additions.
namespace traingraph::mps {

// --- forward -------------------------------------------------------------------------------------

ForwardStep::ForwardStep(GraphPlan& plan, NNFilterNode& node, std::shared_ptr<CNNKernel> kernel_in)
    : kernel(std::move(kernel_in)),
      source_(plan.image(*node.sources()[0])),
      result_(plan.image(*node.result_image())),
      state_(plan.state(*node.result_state())) {
  if (!node.label.empty()) kernel->label = node.label;
  kernel->set_padding_method(node.padding_method());
}

void ForwardStep::count_reads(GraphPlan& plan) { ++plan.images[source_].reads; }

void ForwardStep::encode(GraphEncoding& e) {
  const ImageBatch& x = e.images[source_];
  const ImageDescriptor result = kernel->destination_image_descriptor(x[0]->descriptor());
  if (e.plan.states[state_].is_read) {
    e.states[state_] = kernel->result_state_batch(x, e.owner_of_states(state_));
    e.set_state_reads(state_);
  }
  const ImageBatch& y = e.make(result_, result, x);
  kernel->encode_batch(e.buffer, x, e.states[state_], y);
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
  kernel->destination_image_descriptor(dy, x, e.states[state_]);
  const ImageBatch& dx = e.make(result_, x[0]->descriptor(), x);
  kernel->encode_batch(e.buffer, dy, x, e.states[state_], dx);
}

namespace {

std::shared_ptr<CNNConvolution> make_convolution(const Device& device,
                                                 const CNNConvolutionDataSourcePtr& weights,
                                                 bool full) {
  if (full) return std::make_shared<CNNFullyConnected>(device, weights);
  return std::make_shared<CNNConvolution>(device, weights);
}

class ConvolutionStep final : public ForwardStep {
 public:
  ConvolutionStep(GraphPlan& plan, CNNConvolutionNode& node)
      : ForwardStep(plan, node, make_convolution(plan.device, node.data_source(), node.is_full())) {
  }
  CNNConvolution& convolution() { return static_cast<CNNConvolution&>(*kernel); }
  void reload() override { convolution().reload_weights_and_biases_from_data_source(); }
};

// Reads the forward kernel's weights, so that an update reaches both.
class ConvolutionGradientStep final : public GradientStep {
 public:
  ConvolutionGradientStep(GraphPlan& plan, CNNConvolutionGradientNode& node,
                          const std::shared_ptr<CNNConvolutionGradient>& gradient,
                          CNNConvolutionDataSourcePtr source)
      : GradientStep(plan, node, gradient),
        source_(std::move(source)),
        style_(node.training_style),
        forward_(std::static_pointer_cast<CNNConvolution>(
            static_cast<ConvolutionStep*>(plan.step(node.source_states()[0]->owner()))->kernel)) {
    gradient->share_weights(*forward_);
    if (style_ == NNTrainingStyle::kUpdateDeviceCPU) plan.states[state_].is_permanent = true;
  }

  void count_reads(GraphPlan& plan) override {
    GradientStep::count_reads(plan);
    if (style_ == NNTrainingStyle::kUpdateDeviceGPU) ++plan.states[state_].reads;
  }

  void encode(GraphEncoding& e) override {
    GradientStep::encode(e);
    if (style_ == NNTrainingStyle::kUpdateDeviceNone) return;
    auto gradient = std::static_pointer_cast<CNNConvolutionGradientState>(e.states[state_][0]);
    if (style_ == NNTrainingStyle::kUpdateDeviceGPU) {
      e.updates.push_back([this, &e, gradient] {
        const auto now = forward_->weights_state();
        const auto updated = source_->update(e.buffer, gradient, now);
        if (updated != nullptr && updated != now) {
          forward_->reload_weights_and_biases(e.buffer, *updated);
        }
      });
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
  NNTrainingStyle style_;
  std::shared_ptr<CNNConvolution> forward_;
};

class LossStep final : public GraphStep {
 public:
  LossStep(GraphPlan& plan, CNNLossNode& node)
      : kernel_(plan.device, node.descriptor()),
        source_(plan.image(*node.sources()[0])),
        result_(plan.image(*node.result_image())),
        labels_(plan.state(*node.input_labels())) {
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

// Nothing is encoded: one image under two names.
class NoStep final : public GraphStep {
 public:
  void count_reads(GraphPlan&) override {}
  void encode(GraphEncoding&) override {}
};

}  // namespace

std::unique_ptr<GraphStep> CNNConvolutionNode::make_step(GraphPlan& plan) {
  return std::make_unique<ConvolutionStep>(plan, *this);
}

std::unique_ptr<GraphStep> CNNConvolutionGradientNode::make_step(GraphPlan& plan) {
  std::shared_ptr<CNNConvolutionGradient> kernel;
  if (static_cast<CNNConvolutionNode*>(source_states()[0]->owner())->is_full()) {
    kernel = std::make_shared<CNNFullyConnectedGradient>(plan.device, weights_);
  } else {
    kernel = std::make_shared<CNNConvolutionGradient>(plan.device, weights_);
  }
  return std::make_unique<ConvolutionGradientStep>(plan, *this, kernel, weights_);
}

std::unique_ptr<GraphStep> CNNNeuronNode::make_step(GraphPlan& plan) {
  return std::make_unique<ForwardStep>(plan, *this,
                                       std::make_shared<CNNNeuron>(plan.device, descriptor_));
}
std::unique_ptr<GraphStep> CNNNeuronGradientNode::make_step(GraphPlan& plan) {
  return std::make_unique<GradientStep>(
      plan, *this, std::make_shared<CNNNeuronGradient>(plan.device, descriptor_));
}

std::unique_ptr<GraphStep> CNNPoolingNode::make_step(GraphPlan& plan) {
  return std::make_unique<ForwardStep>(plan, *this,
                                       std::make_shared<CNNPooling>(plan.device, type_, window_));
}
std::unique_ptr<GraphStep> CNNPoolingGradientNode::make_step(GraphPlan& plan) {
  return std::make_unique<GradientStep>(
      plan, *this, std::make_shared<CNNPoolingGradient>(plan.device, type_, window_));
}

std::unique_ptr<GraphStep> CNNSoftMaxNode::make_step(GraphPlan& plan) {
  return std::make_unique<ForwardStep>(plan, *this,
                                       std::make_shared<CNNSoftMax>(plan.device, logarithm_));
}
std::unique_ptr<GraphStep> CNNSoftMaxGradientNode::make_step(GraphPlan& plan) {
  return std::make_unique<GradientStep>(
      plan, *this, std::make_shared<CNNSoftMaxGradient>(plan.device, logarithm_));
}

std::unique_ptr<GraphStep> CNNLossNode::make_step(GraphPlan& plan) {
  return std::make_unique<LossStep>(plan, *this);
}

std::unique_ptr<GraphStep> NNAdditionGradientNode::make_step(GraphPlan& plan) {
  plan.join(*result_image(), *sources()[0]);
  return std::make_unique<NoStep>();
}

}  // namespace traingraph::mps
