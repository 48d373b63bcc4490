#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/kernel.h"

namespace traingraph::cuda {

// Nodes that one kernel does together.
struct Group {
  std::vector<ir::NodeId> nodes;  // the first one says when
  std::unique_ptr<Kernel> kernel;
  ir::ValueId gone = ir::kNone;  // a result between two of them that nobody writes
};

}  // namespace traingraph::cuda
