// Where rank 0 works alone, the others attend: they wait, and take part whenever it copies a state
// of which each rank has a part.
#pragma once

#include <span>

#include "graph/state/graph_state.h"

namespace traingraph {

enum class Attended : std::int64_t { done, copies_state };

// By rank 0, whom the others attend; they hear of it by the same call.
inline Attended attended(const GraphState& state, Attended now = Attended::done) {
  state.ranks->broadcast(std::as_writable_bytes(std::span(&now, 1)));
  return now;
}

}  // namespace traingraph
