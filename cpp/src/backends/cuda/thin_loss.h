#pragma once

#include "backends/cuda/group.h"

namespace traingraph::cuda {

// A classifier's last product, its softmax cross entropy and the gradient of that: rows do not wait
// for each other, and each launch costs more than the work on a row.
std::vector<Group> find_thin_losses(const ir::Graph& graph);

}  // namespace traingraph::cuda
