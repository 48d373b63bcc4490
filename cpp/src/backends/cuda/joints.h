#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/capture.h"
#include "backends/cuda/group.h"
#include "backends/cuda/joint_update.h"

namespace traingraph::cuda {

// Nodes whose work may go into a launch with that of others like them.
struct JointUpdate {
  ir::NodeId product, update;
  std::unique_ptr<JointPart> part;
};

// The nodes of a graph that one launch does together, in runs that have them all.
class Joints {
 public:
  Joints(const ir::Graph& graph, const std::vector<Work>& by_node, const Context& context);

  // A run's work with those joined that may be done at one time: no other work lies between that
  // touches what they write, or writes what they read. The kernels made for it are the caller's.
  std::vector<Work> joined(std::vector<Work> run, Pointers pointers,
                           std::vector<std::unique_ptr<Kernel>>& kernels) const;

 private:
  std::vector<Group> groups_;
  std::vector<JointUpdate> updates_;
};

}  // namespace traingraph::cuda
