#pragma once

#include <string>

#include <traingraph/errors.h>
#include <traingraph/mps/nodes.h>

namespace traingraph::mps {

// The forward node that a state belongs to. Raises InvalidArgument for that of another kind.
template <class Node>
Node& forward_of(const NNStateNodePtr& state, const char* kind, const char* expected) {
  if (state == nullptr) {
    throw InvalidArgument("[" + std::string(kind) + "] expected a state of " + expected +
                          " but got none");
  }
  if (auto* node = dynamic_cast<Node*>(state->owner())) return *node;
  throw InvalidArgument("[" + std::string(kind) + "] expected a state of " + expected +
                        " but got that of " + state->owner()->description());
}

}  // namespace traingraph::mps
