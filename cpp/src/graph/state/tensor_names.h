#pragma once

#include "graph/state/graph_state.h"

namespace traingraph {

// Calls tensors "3.Convolution.weights" and "3.Convolution.result" while they have no label.
void name_by_place(const NodeRecord& node);

}  // namespace traingraph
