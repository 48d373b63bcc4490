#pragma once

#include <vector>

#include "graph/lowering/lowering.h"

namespace traingraph {

// The gradient and update half of a lowering: what is differentiated, from where, and what updates
// do with it. `nodes` are the graph's own, in order.
void add_training(const GraphState& state, const std::vector<NodeRecord>& nodes, LoweredGraph& out);

}  // namespace traingraph
