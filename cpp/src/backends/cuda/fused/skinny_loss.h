#pragma once

#include "backends/cuda/kernel/fused_group.h"

namespace traingraph::cuda {

// Fusion of a classifier's last product, its softmax cross entropy and the gradient of the loss.
// Rows are independent, and each launch costs more than the work on a row.
std::vector<FusedGroup> find_skinny_losses(const ir::Graph& graph);

}  // namespace traingraph::cuda
