// Nodes and steps of NNForwardLoss, NNLossGradient and NNInitialGradient, with the callback that
// gives the weight of the loss.
#include <traingraph/mps/loss_nodes.h>

#include <traingraph/mps/forward_loss.h>

#include "mps/nodes/node_steps.h"
#include "mps/nodes/node_support.h"

namespace traingraph::mps {
namespace {

class ForwardLossStep final : public ForwardStep {
 public:
  ForwardLossStep(GraphPlan& plan, NNForwardLossNode& node,
                  const std::shared_ptr<NNForwardLoss>& loss)
      : ForwardStep(plan, node, loss),
        loss_(*loss),
        callback_(node.property_callback),
        labels_(plan.image(*node.sources()[1])) {
    refuse_own_policy(node, "a loss has the size of its source, or is one number");
    if (node.sources().size() > 2) weights_ = plan.image(*node.sources()[2]);
  }

  void count_reads(GraphPlan& plan) override {
    ForwardStep::count_reads(plan);
    ++plan.images[labels_].reads;
    if (weights_ != GraphPlan::kNone) ++plan.images[weights_].reads;
  }

  void encode(GraphEncoding& e) override {
    const ImageBatch& x = e.images[source_];
    const ImageDescriptor result = kernel->destination_image_descriptor(x[0]->descriptor());
    const ImageBatch& y = e.make(result_, result, x);
    if (callback_.call != nullptr) loss_.set_running_weight(callback_.call(x[0], y[0]));
    make_states(e);
    loss_.encode_batch(e.buffer, x, e.images[labels_], e.images_at(weights_), e.states[state_], y);
  }

  bool repeats() const override { return callback_.call == nullptr; }
  void visit_owned(OwnershipVisitor& visitor) const override {
    ForwardStep::visit_owned(visitor);
    callback_.visit_owned(visitor);
  }

 private:
  NNForwardLoss& loss_;
  NNNumberCallback callback_;
  std::size_t labels_;
  std::size_t weights_ = GraphPlan::kNone;
};

class LossGradientStep final : public GraphStep {
 public:
  LossGradientStep(GraphPlan& plan, NNLossGradientNode& node)
      : kernel_(plan.device, node.descriptor()),
        callback_(node.property_callback),
        gradient_(plan.image(*node.sources()[0])),
        source_(plan.image(*node.sources()[1])),
        labels_(plan.image(*node.sources()[2])),
        result_(plan.image(*node.result_image())) {
    kernel_.label = node.label;
    kernel_.set_compute_label_gradients(node.is_labels_gradient_filter());
    if (node.sources().size() > 3) weights_ = plan.image(*node.sources()[3]);
    if (node.source_states().empty()) return;
    const NNStateNodePtr& state = node.source_states()[0];
    state_ = plan.state(*state);
    if (callback_.call != nullptr) return;
    callback_ = static_cast<const NNForwardLossNode&>(*state->owner()).property_callback;
  }

  void count_reads(GraphPlan& plan) override {
    for (std::size_t source : {gradient_, source_, labels_}) ++plan.images[source].reads;
    if (weights_ != GraphPlan::kNone) ++plan.images[weights_].reads;
    if (state_ != GraphPlan::kNone) ++plan.states[state_].reads;
  }

  void encode(GraphEncoding& e) override {
    const ImageBatch& x = e.images[source_];
    const ImageBatch& dx = e.make(result_, x[0]->descriptor(), x);
    if (callback_.call != nullptr) kernel_.set_running_weight(callback_.call(x[0], dx[0]));
    kernel_.encode_batch(e.buffer, e.images[gradient_], x, e.images[labels_], e.images_at(weights_),
                         e.states_at(state_), dx);
  }

  bool repeats() const override { return callback_.call == nullptr; }
  void visit_owned(OwnershipVisitor& visitor) const override { callback_.visit_owned(visitor); }

 private:
  NNLossGradient kernel_;
  NNNumberCallback callback_;
  std::size_t gradient_, source_, labels_, result_;
  std::size_t weights_ = GraphPlan::kNone;
  std::size_t state_ = GraphPlan::kNone;
};

void check_count(const char* kind, std::size_t count, std::size_t least, const char* names) {
  if (count == least || count == least + 1) return;
  throw InvalidArgument("[" + std::string(kind) + "] expected " + names + " but got " +
                        std::to_string(count) + " sources");
}

}  // namespace

NNForwardLossNode::NNForwardLossNode(std::vector<NNImageNodePtr> sources,
                                     const CNNLossDescriptor& descriptor)
    : NNFilterNode(std::move(sources)), descriptor_(descriptor) {
  constexpr const char* kKind = "MPSNNForwardLossNode";
  check_count(kKind, this->sources().size(), 2, "predictions, labels and perhaps weights");
  check_sources(kKind);
  add_state(std::make_unique<NNGradientStateNode>());
}

std::vector<NNFilterNodePtr> NNForwardLossNode::make_gradients(const NNImageNodePtr& gradient) {
  std::vector<NNImageNodePtr> given = sources();
  given.insert(given.begin(), gradient);
  std::vector<NNFilterNodePtr> made;
  for (const bool by_labels : {false, true}) {
    made.push_back(
        std::make_shared<NNLossGradientNode>(given, result_state(), descriptor_, by_labels));
  }
  return made;
}

std::unique_ptr<GraphStep> NNForwardLossNode::make_step(GraphPlan& plan) {
  return std::make_unique<ForwardLossStep>(
      plan, *this, std::make_shared<NNForwardLoss>(plan.device, descriptor_));
}

NNLossGradientNode::NNLossGradientNode(std::vector<NNImageNodePtr> sources,
                                       const NNStateNodePtr& gradient_state,
                                       const CNNLossDescriptor& descriptor,
                                       bool is_labels_gradient_filter)
    : NNGradientFilterNode(std::move(sources), gradient_state == nullptr
                                                   ? std::vector<NNStateNodePtr>{}
                                                   : std::vector{gradient_state}),
      descriptor_(descriptor),
      by_labels_(is_labels_gradient_filter) {
  constexpr const char* kKind = "MPSNNLossGradientNode";
  check_count(kKind, this->sources().size(), 3,
              "the incoming gradient, predictions, labels and perhaps weights");
  check_sources(kKind);
  if (gradient_state == nullptr) return;
  const auto& forward =
      forward_of<NNForwardLossNode>(gradient_state, kKind, "MPSNNForwardLossNode");
  label = forward.label;
  if (forward.descriptor() == descriptor) return;
  refuse("expected the loss descriptor of " + forward.description() + " but got another one");
}

std::unique_ptr<GraphStep> NNLossGradientNode::make_step(GraphPlan& plan) {
  return std::make_unique<LossGradientStep>(plan, *this);
}

NNInitialGradientNode::NNInitialGradientNode(NNImageNodePtr source)
    : NNFilterNode({std::move(source)}) {
  check_sources("MPSNNInitialGradientNode");
}

std::unique_ptr<GraphStep> NNInitialGradientNode::make_step(GraphPlan& plan) {
  return std::make_unique<ForwardStep>(plan, *this,
                                       std::make_shared<NNInitialGradient>(plan.device));
}

}  // namespace traingraph::mps
