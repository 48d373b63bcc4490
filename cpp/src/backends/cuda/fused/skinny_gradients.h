#pragma once

#include "backends/cuda/kernel/fused_group.h"

namespace traingraph::cuda {

// Fusion of the gradients of a layer with few outputs into one pass over its input: the data
// gradient dx = dy W, the weight gradient dW = dyᵀ x, and optionally the sum of dx's rows, which is
// the bias gradient of the previous layer. dx may be masked by x, the result of an activation. Each
// separate launch costs some microseconds of latency, and beside a large GEMM small kernels take
// three times as long.
std::vector<FusedGroup> find_skinny_gradients(const ir::Graph& graph);

}  // namespace traingraph::cuda
