#pragma once

#include <memory>

#include "backends/cuda/kernel/fused_group.h"
#include "backends/cuda/products/matmul.h"

// Split-K GEMM over a cluster of two blocks, for results with too few tiles to occupy the device:
// both blocks compute the same tile, each over half of the inner extent.
namespace traingraph::cuda {

// Whether this kernel takes a TF32 product of plain float32 matrices, and is not slower than
// cuBLASLt.
bool is_cluster_split_k(const ir::Graph& graph, const ir::Node& node, const Context& context);

std::unique_ptr<Kernel> make_cluster_split_k(const ir::Graph& graph, const ir::Node& node);

// Products whose only reader is a ReLU gradient, which the kernel applies at almost no cost.
std::vector<FusedGroup> find_masked_products(const ir::Graph& graph, const Context& context);

}  // namespace traingraph::cuda
