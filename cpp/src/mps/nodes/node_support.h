#pragma once

#include <functional>
#include <string>

#include <traingraph/errors.h>
#include <traingraph/mps/nodes.h>

namespace traingraph::mps {

// The forward node that a state belongs to. Raises InvalidArgument for that of another kind, and of
// one that is not right.
template <class Node>
Node& forward_of(const NNStateNodePtr& state, const char* kind, const char* expected,
                 const std::function<bool(const Node&)>& is_right = nullptr) {
  const std::string subject =
      "[" + std::string(kind) + "] expected a state of " + expected + " but got ";
  if (state == nullptr) throw InvalidArgument(subject + "none");
  auto* const node = dynamic_cast<Node*>(state->owner());
  if (node != nullptr && (is_right == nullptr || is_right(*node))) return *node;
  throw InvalidArgument(subject + "that of " + state->owner()->description());
}

// Raises Unsupported where a padding policy of the program's would have no say.
inline void refuse_own_policy(const NNFilterNode& node, const char* why) {
  if ((node.padding_method() & PaddingMethod::kCustom) == 0) return;
  throw Unsupported("[" + node.description() + "] a padding policy with CUSTOM: " + why);
}

}  // namespace traingraph::mps
