#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/kernel/kernel.h"

// Fusion of a weight gradient with the optimizer update that reads it. While tensor cores compute
// one tile of the gradient, other warps update the weights with the previous tile. The GEMM is
// bound by caches and tensor cores, the update by memory bandwidth, so they overlap well.
namespace traingraph::cuda {

// Limit of updates per launch. Several in one launch leave fewer multiprocessors idle at the end.
constexpr std::size_t kMostUpdates = 4;

// A GEMM and its update, prepared before they are grouped with others.
class UpdatePart {
 public:
  virtual ~UpdatePart() = default;
};

// A product aᵀ b and the update that is its only reader; the gradient is not materialized. null if
// they cannot be fused or would not gain. It needs TF32 on compute capability 9.0, large weights
// and short sums.
std::unique_ptr<UpdatePart> make_update_part(const ir::Graph& graph, const ir::Node& product,
                                             const ir::Node& update, const Context& context);

// One kernel for at most kMostUpdates parts of one type.
std::unique_ptr<Kernel> make_fused_update(const std::vector<const UpdatePart*>& parts);

}  // namespace traingraph::cuda
