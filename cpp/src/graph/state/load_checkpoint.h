#pragma once

#include <functional>
#include <string>

#include "graph/state/fit_place.h"
#include "graph/state/graph_state.h"

namespace traingraph {

// As ExecutableGraph::load. Before anything changes, `check_place` may refuse where the fit in the
// file stands; it is given null if there is none.
Metadata load_checkpoint(GraphState& state, const std::string& path,
                         const std::function<void(const FitPlace*)>& check_place);

// What a copy of the state that rank 0 makes takes of another rank, which keeps nothing of it.
void give_parts(const GraphState& state);

// A line for each entry of the state of a training graph over several ranks. Raises InvalidArgument
// amid the micro-batches of a step.
std::string entries_of_state(const GraphState& state);

// By all ranks, whose entries are the same: their state becomes that of rank 0. One tensor after
// another, because a copy of all would be as large as what ranks share between them.
void take_state_of_first_rank(GraphState& state);

// Raises InvalidArgument for a file that is there, not empty, and that no save has written;
// FileError.
void check_is_checkpoint(const std::string& path);

}  // namespace traingraph
