// The state of a graph that several ranks train.
#pragma once

#include <string>

#include "graph/state/graph_state.h"

namespace traingraph {

// What a copy of the state that rank 0 makes takes of another rank, which keeps nothing of it.
void give_parts(const GraphState& state);

// A line for each entry of the state of a training graph over several ranks. Raises InvalidArgument
// amid the micro-batches of a step.
std::string entries_of_state(const GraphState& state);

// By all ranks, whose entries are the same: their state becomes that of rank 0. One tensor after
// another, because a copy of all would be as large as what ranks share between them.
void take_state_of_first_rank(GraphState& state);

}  // namespace traingraph
