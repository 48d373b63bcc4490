#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/fused/fused_update.h"
#include "backends/cuda/kernel/fused_group.h"
#include "backends/cuda/launch/capture.h"

namespace traingraph::cuda {

// A matrix product and the optimizer update that reads it: a candidate for fusion with others like
// it.
struct UpdateCandidate {
  ir::NodeId product, update;
  std::unique_ptr<UpdatePart> part;
};

// Horizontal fusion: groups of nodes of a graph that one kernel computes, in runs that contain all
// of them.
class HorizontalFusion {
 public:
  HorizontalFusion(const ir::Graph& graph, const std::vector<Work>& by_node,
                   const Context& context);

  // Fuses the work of a run. A group is fused only if no other work between its nodes writes memory
  // that they access, or accesses memory that they write. `kernels` receives the new kernels.
  std::vector<Work> fuse(std::vector<Work> run, Pointers pointers,
                         std::vector<std::unique_ptr<Kernel>>& kernels) const;

 private:
  std::vector<FusedGroup> groups_;
  std::vector<UpdateCandidate> updates_;
};

}  // namespace traingraph::cuda
