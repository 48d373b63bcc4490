#pragma once

#include <memory>

#include "backends/cuda/group.h"
#include "backends/cuda/matmul.h"

// Products on warpgroups' instructions whose results are too small for as many tiles as a device
// has multiprocessors: two of these share a tile, half of the sum each.
namespace traingraph::cuda {

// Whether a TF32 product of plain float32 matrices is one of those, and as fast or faster so.
bool is_pair_product(const ir::Graph& graph, const ir::Node& node, const Context& context);

std::unique_ptr<Kernel> make_pair_product(const ir::Graph& graph, const ir::Node& node);

// Those whose result is read by a relu's gradient alone, which is as good as free in them.
std::vector<Group> find_masked_products(const ir::Graph& graph, const Context& context);

}  // namespace traingraph::cuda
