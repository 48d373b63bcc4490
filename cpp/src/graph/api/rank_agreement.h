#pragma once

#include <string>

#include "graph/state/graph_state.h"

namespace traingraph {

// Raises Unsupported, or InvalidArgument, for a graph that ranks cannot train together.
void check_may_be_distributed(const GraphState& state);

// By all ranks, when each has compiled: raises InvalidArgument on all of them, with both sides'
// values, where one differs in what the training follows from. `program`: compiled, as text. Then
// the state of all graphs, parameters and optimizer buffers, becomes that of rank 0.
void agree_over_ranks(const GraphState& compiled, const std::string& program, GraphState& graph);

}  // namespace traingraph
