#pragma once

#include "graph/lowering/lowering.h"

namespace traingraph {

// Computes now, on the reference backend, what forward ops make of the graph's constants alone.
// What others read of it becomes a parameter of its own; the ops are left without readers.
void fold_constants(const GraphState& state, LoweredGraph& lowered);

}  // namespace traingraph
