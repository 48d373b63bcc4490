#pragma once

#include "ir/graph.h"
#include "runtime/backend.h"

namespace traingraph::cuda {

// Row norms with factors and shifts per column become one op, and so does their gradient, which
// adds that of a residual branch and sums per column what gamma, beta and a bias before it receive.
ir::Graph with_layer_norms(ir::Graph graph, const Backend& backend, int multiprocessors);

// How many parts of the rows the gradient sums apart.
std::int64_t layer_norm_parts(std::int64_t rows, std::int64_t columns, int multiprocessors);

}  // namespace traingraph::cuda
