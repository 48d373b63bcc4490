#pragma once

#include "backends/cuda/group.h"

namespace traingraph::cuda {

// What a layer of few outputs has as gradients, in one pass over its input: a product back,
// dx = dy W, the product dW = dyᵀ x, and where there is one the sum of dx's rows, which is the
// gradient of the bias before. dx may be masked by x, an activation's result. Some microseconds of
// each launch are latency, and beside a large product small ones take three times as long.
std::vector<Group> find_thin_gradients(const ir::Graph& graph);

}  // namespace traingraph::cuda
