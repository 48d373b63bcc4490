#pragma once

#include "ir/graph.h"
#include "runtime/backend.h"

namespace traingraph::cuda {

// Lets gradients that read a result of batch_norm for its sign alone read a bit per element
// instead, where the kernels do. Expects layouts.
ir::Graph with_relu_masks(ir::Graph graph);

// Two batch norms whose results are added: one op normalizes both, and one gives both gradients
// where the first has a mask and gives its prologue to the second alone.
ir::Graph with_residual_pairs(const ir::Graph& graph, const Backend& backend);

}  // namespace traingraph::cuda
