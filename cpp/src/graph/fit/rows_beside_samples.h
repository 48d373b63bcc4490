#pragma once

#include "graph/state/graph_state.h"

namespace traingraph {

// What has a row for each sample of a batch though no call brings it: what linked graphs send, what
// is bound to tensors that nobody declared, what losses and other layers hold. Reads the graph as
// its programs are made; a snapshot.
NamedTensors rows_beside_samples(const GraphState& state);

}  // namespace traingraph
