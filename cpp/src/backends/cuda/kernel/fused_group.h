#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/kernel/kernel.h"

namespace traingraph::cuda {

// Nodes that one kernel computes.
struct FusedGroup {
  std::vector<ir::NodeId> nodes;  // launched at the position of the first
  std::unique_ptr<Kernel> kernel;
  ir::ValueId not_materialized = ir::kNone;  // an intermediate that is not written to memory
};

}  // namespace traingraph::cuda
