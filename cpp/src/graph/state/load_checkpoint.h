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

// Raises InvalidArgument for a file that is there, not empty, and that no save has written;
// FileError.
void check_is_checkpoint(const std::string& path);

}  // namespace traingraph
