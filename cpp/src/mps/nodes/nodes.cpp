// Base classes of graph nodes: descriptions, ownership of results and states, and gradient filters.
#include <traingraph/mps/nodes.h>

#include <traingraph/errors.h>

#include "mps/nodes/graph_plan.h"
#include "mps/recording/owner_of.h"

namespace traingraph::mps {

NNStateNode::~NNStateNode() = default;
NNFilterNode::~NNFilterNode() = default;

std::string NNImageNode::description() const {
  std::string name =
      handle == nullptr || handle->label.empty() ? "" : "image '" + handle->label + "'";
  if (!name.empty()) return name;
  return producer_ == nullptr ? "an image without a handle"
                              : "the result of " + producer_->description();
}

void NNImageNode::visit_owned(OwnershipVisitor& visitor) const {
  if (producer_ != nullptr) return producer_->visit_owned(visitor);
  visitor(handle);
  visitor(image_allocator());
}
void NNStateNode::visit_owned(OwnershipVisitor& visitor) const { owner_->visit_owned(visitor); }
void NNFilterNode::visit_owned(OwnershipVisitor& visitor) const {
  visitor(sources_);
  visitor(source_states_);
  visitor(made_of);
  visitor(padding_.own());
  visitor(result_.handle);
  visitor(result_.image_allocator());
  for (const auto& state : states_) visitor(state->handle);
}

NNFilterNode::NNFilterNode(std::vector<NNImageNodePtr> sources,
                           std::vector<NNStateNodePtr> source_states)
    : sources_(std::move(sources)), source_states_(std::move(source_states)) {
  result_.producer_ = this;
}

std::string NNFilterNode::description() const {
  return std::string(kind()) + (label.empty() ? "" : " '" + label + "'");
}

void NNFilterNode::refuse(const std::string& text) const {
  throw InvalidArgument("[" + description() + "] " + text);
}

void NNFilterNode::check_sources(const char* kind) const {
  for (const NNImageNodePtr& source : sources_) {
    if (source != nullptr) continue;
    throw InvalidArgument("[" + std::string(kind) + "] expected a source image node but got none");
  }
}

void NNFilterNode::add_state(std::unique_ptr<NNStateNode> state) {
  own(*state);
  states_.push_back(std::move(state));
}

NNFilterNodePtr NNFilterNode::owner() { return owner_of<NNFilterNode>(*this, description()); }

// Results are parts of their node, and keep it.
NNImageNodePtr NNFilterNode::result_image() { return {owner(), &result_}; }
NNStateNodePtr NNFilterNode::result_state() {
  if (states_.empty()) return nullptr;
  return {owner(), states_[0].get()};
}
std::vector<NNStateNodePtr> NNFilterNode::result_states() {
  std::vector<NNStateNodePtr> states;
  for (const auto& state : states_) states.push_back({owner(), state.get()});
  return states;
}

std::vector<NNFilterNodePtr> NNFilterNode::make_gradients(const NNImageNodePtr&) {
  throw Unsupported("[" + description() + "] expected a node with a gradient; " +
                    (begins_gradients() ? "its result is already the gradient of its source"
                                        : "this one has none"));
}

NNGradientFilterNode::NNGradientFilterNode(const char* kind, NNImageNodePtr source_gradient,
                                           NNImageNodePtr source_image,
                                           NNStateNodePtr gradient_state,
                                           const NNFilterNode& forward)
    : NNFilterNode({std::move(source_gradient), std::move(source_image)},
                   {std::move(gradient_state)}) {
  check_sources(kind);
  label = forward.label;
}

std::vector<NNFilterNodePtr> NNGradientFilterNode::make_gradients(const NNImageNodePtr&) {
  throw Unsupported("[" + description() + "] there are no gradients of gradient nodes");
}

std::vector<NNFilterNodePtr> NNFilterNode::gradient_filters(const NNImageNodePtr& source_gradient) {
  if (source_gradient == nullptr) refuse("expected a gradient but got none");
  return make_gradients(source_gradient);
}

const NNImageNodePtr& NNFilterNode::only(const std::vector<NNImageNodePtr>& gradients) const {
  if (gradients.size() == 1) return gradients[0];
  refuse("expected one gradient, for the one result, but got " + std::to_string(gradients.size()));
}

std::vector<NNFilterNodePtr> NNFilterNode::gradient_filters(
    const std::vector<NNImageNodePtr>& source_gradients) {
  return gradient_filters(only(source_gradients));
}

NNFilterNodePtr NNFilterNode::gradient_filter(const NNImageNodePtr& source_gradient) {
  std::vector<NNFilterNodePtr> made = gradient_filters(source_gradient);
  if (made.size() == 1 || has_main_gradient()) return made[0];
  refuse("expected a node with one source but this one has " + std::to_string(made.size()) +
         "; use gradient_filters()");
}

NNFilterNodePtr NNFilterNode::gradient_filter(const std::vector<NNImageNodePtr>& source_gradients) {
  return gradient_filter(only(source_gradients));
}

}  // namespace traingraph::mps
