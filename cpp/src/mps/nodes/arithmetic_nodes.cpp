// Nodes and steps of binary arithmetic and concatenation; a gradient that equals the incoming one
// encodes nothing.
#include <traingraph/errors.h>
#include <traingraph/mps/arithmetic_nodes.h>

#include <traingraph/mps/rearrangement.h>

#include "mps/nodes/node_steps.h"
#include "mps/nodes/node_support.h"

namespace traingraph::mps {
namespace {

using Arithmetic = CNNArithmeticOperation;

const ArithmeticNames& names_of(Arithmetic operation) {
  return kArithmeticNames[static_cast<int>(operation)];
}

// Raises ShapeError unless gradients have the size of what the forward node has written.
void expect_size_of(const ImageDescriptor& written, const ImageBatch& gradients,
                    const std::string& who) {
  const ImageDescriptor& got = gradients[0]->descriptor();
  if (got.width == written.width && got.height == written.height &&
      got.feature_channels == written.feature_channels) {
    return;
  }
  ImageDescriptor expected = written;
  expected.number_of_images = got.number_of_images;
  throw ShapeError("[" + who + "] expected source gradients " + to_string(expected) +
                   ", the size of the forward node's result, but got " + to_string(got));
}

class ArithmeticStep final : public GraphStep {
 public:
  ArithmeticStep(GraphPlan& plan, NNBinaryArithmeticNode& node)
      : kernel_(std::make_shared<CNNArithmetic>(plan.device, node.operation())),
        left_(plan.image(*node.sources()[0])),
        right_(plan.image(*node.sources()[1])),
        result_(plan.image(*node.result_image())) {
    kernel_->label = node.label;
    kernel_->set_parameters(node.parameters());
    kernel_->set_padding(node.padding());
    if (const NNStateNodePtr state = node.result_state()) state_ = plan.state(*state);
  }

  void count_reads(GraphPlan& plan) override {
    ++plan.images[left_].reads;
    ++plan.images[right_].reads;
  }

  void encode(GraphEncoding& e) override {
    const ImageBatch &a = e.images[left_], &b = e.images[right_];
    const ImageDescriptor result = kernel_->sized_result(a, b);
    // Gradients that are the incoming ones read no state.
    if (state_ != GraphPlan::kNone && e.plan.states[state_].reads > 0) {
      e.states[state_] = kernel_->result_state_batch(a, b, e.owner_of_states(state_));
      e.set_state_reads(state_);
    }
    kernel_->encode_batch(e.buffer, a, b, e.states_at(state_), e.make(result_, result, a));
  }
  void visit_owned(OwnershipVisitor& visitor) const override { visitor(kernel_); }
  bool repeats() const override { return kernel_->padding().own() == nullptr; }

 private:
  std::shared_ptr<CNNArithmetic> kernel_;
  std::size_t left_, right_, result_;
  std::size_t state_ = GraphPlan::kNone;
};

class ArithmeticGradientStep final : public GradientStep {
 public:
  ArithmeticGradientStep(GraphPlan& plan, NNArithmeticGradientNode& node,
                         const std::shared_ptr<CNNArithmeticGradient>& gradient)
      : GradientStep(plan, node, gradient), secondary_(node.is_secondary_source_filter()) {
    gradient->set_parameters(node.parameters());
  }

  void encode(GraphEncoding& e) override {
    const ImageBatch &dy = e.images[gradient_], &other = e.images[source_];
    const StateBatch& states = e.states[state_];
    const auto& state = static_cast<const CNNArithmeticGradientState&>(*states[0]);
    const ImageBatch& dx = e.make(result_, secondary_ ? state.secondary() : state.primary(), other);
    // Where a padding policy of the program's has put it.
    kernel->set_secondary_offset(
        (secondary_ ? state.primary_part() : state.secondary_part()).offset);
    kernel->encode_batch(e.buffer, dy, other, states, dx);
  }

 private:
  bool secondary_;
};

// A gradient that is the incoming one: nothing is encoded.
class SameGradientStep final : public GraphStep {
 public:
  SameGradientStep(const GraphPlan& plan, NNFilterNode& node)
      : who_(node.description()),
        gradient_(plan.image(*node.sources()[0])),
        result_(plan.image(*node.source_states()[0]->owner()->result_image())) {}
  void count_reads(GraphPlan&) override {}
  void encode(GraphEncoding& e) override {
    expect_size_of(e.images[result_][0]->descriptor(), e.images[gradient_], who_);
  }

 private:
  std::string who_;
  std::size_t gradient_, result_;  // places, the second of the forward node's result
};

class ConcatenationStep final : public GraphStep {
 public:
  ConcatenationStep(GraphPlan& plan, NNConcatenationNode& node)
      : kernel_(plan.device), result_(plan.image(*node.result_image())) {
    kernel_.label = node.label;
    kernel_.set_packs_channels(node.packs_channels);
    refuse_own_policy(node, "a concatenation has the size of its sources");
    for (const NNImageNodePtr& source : node.sources()) sources_.push_back(plan.image(*source));
    for (const NNStateNodePtr& state : node.result_states()) states_.push_back(plan.state(*state));
  }

  void count_reads(GraphPlan& plan) override {
    for (std::size_t source : sources_) ++plan.images[source].reads;
  }

  void encode(GraphEncoding& e) override {
    std::vector<ImageBatch> sources;
    for (const std::size_t source : sources_) sources.push_back(e.images[source]);
    const ImageDescriptor result = kernel_.destination_image_descriptor(sources);
    KernelWindow first;  // where a source's channels begin
    for (std::size_t k = 0; k < sources_.size(); ++k) {
      const ImageBatch& source = sources[k];
      if (e.plan.states[states_[k]].is_read) {
        const auto state = std::make_shared<GradientState>(first, source[0]->descriptor(),
                                                           e.owner_of_states(states_[k]));
        state->encoded_forward(e.buffer, result);
        e.states[states_[k]] = StateBatch(source.size(), state);
        e.set_state_reads(states_[k]);
      }
      first.offset.z += kernel_.channels_for(source[0]->descriptor().feature_channels);
    }
    kernel_.encode_batch(e.buffer, sources, e.make(result_, result, sources[0]));
  }

 private:
  NNConcatenation kernel_;
  std::vector<std::size_t> sources_, states_;
  std::size_t result_;
};

class ConcatenationGradientStep final : public GraphStep {
 public:
  ConcatenationGradientStep(GraphPlan& plan, NNConcatenationGradientNode& node)
      : kernel_(plan.device),
        gradient_(plan.image(*node.sources()[0])),
        state_(plan.state(*node.source_states()[0])),
        result_(plan.image(*node.result_image())) {
    kernel_.label = node.label;
  }

  void count_reads(GraphPlan& plan) override {
    ++plan.images[gradient_].reads;
    ++plan.states[state_].reads;
  }

  void encode(GraphEncoding& e) override {
    const ImageBatch& dy = e.images[gradient_];
    auto& state = static_cast<GradientState&>(*e.states[state_][0]);
    expect_size_of(*state.written(), dy, kernel_.description());
    kernel_.set_source_feature_channel_offset(state.window().offset.z);
    kernel_.set_source_feature_channel_max_count(state.source().feature_channels);
    const ImageDescriptor result = kernel_.destination_image_descriptor(dy[0]->descriptor());
    kernel_.encode_batch(e.buffer, dy, e.make(result_, result, dy));
    if (state.reads().read()) return;
    throw InvalidArgument("[" + kernel_.description() + "] expected a read count above 0 of " +
                          state.description() + " but it has run out");
  }

 private:
  NNSlice kernel_;
  std::size_t gradient_, state_, result_;
};

const NNBinaryArithmeticNode& arithmetic_of(Arithmetic operation, const NNStateNodePtr& state) {
  const ArithmeticNames& names = names_of(operation);
  return forward_of<NNBinaryArithmeticNode>(
      state, names.gradient, names.forward,
      [operation](const NNBinaryArithmeticNode& node) { return node.operation() == operation; });
}

}  // namespace

// --- arithmetic ----------------------------------------------------------------------------------

NNBinaryArithmeticNode::NNBinaryArithmeticNode(NNImageNodePtr left, NNImageNodePtr right,
                                               Arithmetic operation)
    : NNFilterNode({std::move(left), std::move(right)}), operation_(operation) {
  check_sources(names_of(operation).forward);
  if (names_of(operation).gradient == nullptr) return;
  add_state(std::make_unique<NNArithmeticGradientStateNode>());
}
const char* NNBinaryArithmeticNode::kind() const { return names_of(operation_).forward; }

std::vector<NNFilterNodePtr> NNBinaryArithmeticNode::make_gradients(
    const NNImageNodePtr& gradient) {
  if (names_of(operation_).gradient == nullptr) return NNFilterNode::make_gradients(gradient);
  std::vector<NNFilterNodePtr> made;
  for (const bool secondary : {false, true}) {
    made.push_back(std::make_shared<NNArithmeticGradientNode>(
        gradient, sources()[secondary ? 0 : 1], result_state(), secondary, operation_));
  }
  return made;
}

std::unique_ptr<GraphStep> NNBinaryArithmeticNode::make_step(GraphPlan& plan) {
  return std::make_unique<ArithmeticStep>(plan, *this);
}

NNArithmeticGradientNode::NNArithmeticGradientNode(NNImageNodePtr source_gradient,
                                                   NNImageNodePtr source_image,
                                                   NNStateNodePtr gradient_state,
                                                   bool is_secondary_source_filter,
                                                   Arithmetic operation)
    : NNGradientFilterNode(names_of(operation).gradient, std::move(source_gradient),
                           std::move(source_image), gradient_state,
                           arithmetic_of(operation, gradient_state)),
      secondary_(is_secondary_source_filter),
      operation_(operation) {}
const char* NNArithmeticGradientNode::kind() const { return names_of(operation_).gradient; }

CNNArithmeticParameters NNArithmeticGradientNode::parameters() const {
  if (own_.has_value()) return *own_;
  return gradient_parameters(operation_, forward().parameters(), secondary_);
}

const NNBinaryArithmeticNode& NNArithmeticGradientNode::forward() const {
  return static_cast<const NNBinaryArithmeticNode&>(*source_states()[0]->owner());
}

bool NNArithmeticGradientNode::is_the_gradient_itself() {
  const NNImageNodePtr result = result_image();
  const CNNArithmeticParameters& given = forward().parameters();
  return operation_ != Arithmetic::kMultiply &&
         (forward().padding_method() & PaddingMethod::kCustom) == 0 &&
         parameters().primary_scale == 1 && !given.clamps() &&
         given.primary_strides == BroadcastStrides{} &&
         given.secondary_strides == BroadcastStrides{} && !result->export_from_graph &&
         result->format == ChannelFormat::kNone;
}

std::unique_ptr<GraphStep> NNArithmeticGradientNode::make_step(GraphPlan& plan) {
  if (is_the_gradient_itself()) {
    plan.join(*result_image(), *sources()[0]);
    return std::make_unique<SameGradientStep>(plan, *this);
  }
  return std::make_unique<ArithmeticGradientStep>(
      plan, *this, std::make_shared<CNNArithmeticGradient>(plan.device, operation_, secondary_));
}

// --- concatenation -------------------------------------------------------------------------------

NNConcatenationNode::NNConcatenationNode(std::vector<NNImageNodePtr> sources)
    : NNFilterNode(std::move(sources)) {
  constexpr const char* kKind = "MPSNNConcatenationNode";
  check_sources(kKind);
  const std::size_t count = this->sources().size();
  if (count == 0) {
    throw InvalidArgument("[" + std::string(kKind) + "] expected one or more sources but got none");
  }
  for (std::size_t k = 0; k < count; ++k) add_state(std::make_unique<NNGradientStateNode>());
}

std::vector<NNFilterNodePtr> NNConcatenationNode::make_gradients(const NNImageNodePtr& gradient) {
  const std::vector<NNStateNodePtr> states = result_states();
  std::vector<NNFilterNodePtr> made;
  for (std::size_t k = 0; k < states.size(); ++k) {
    made.push_back(
        std::make_shared<NNConcatenationGradientNode>(gradient, sources()[k], states[k]));
  }
  return made;
}

std::unique_ptr<GraphStep> NNConcatenationNode::make_step(GraphPlan& plan) {
  return std::make_unique<ConcatenationStep>(plan, *this);
}

NNConcatenationGradientNode::NNConcatenationGradientNode(NNImageNodePtr source_gradient,
                                                         NNImageNodePtr source_image,
                                                         NNStateNodePtr gradient_state)
    : NNGradientFilterNode(
          "MPSNNConcatenationGradientNode", std::move(source_gradient), std::move(source_image),
          gradient_state,
          forward_of<NNConcatenationNode>(gradient_state, "MPSNNConcatenationGradientNode",
                                          "MPSNNConcatenationNode")) {}

std::unique_ptr<GraphStep> NNConcatenationGradientNode::make_step(GraphPlan& plan) {
  return std::make_unique<ConcatenationGradientStep>(plan, *this);
}

}  // namespace traingraph::mps
