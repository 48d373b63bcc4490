#pragma once

#include <cstddef>
#include <vector>

// Launch groups: the nodes of a run that are launched together.
namespace traingraph::cuda {

// One launch: a single node, or a megakernel (megakernel.h) of several.
struct LaunchGroup {
  // Nodes by their position in the order. Nodes of one level are independent.
  std::vector<std::vector<std::size_t>> levels;
  std::vector<std::size_t> needs;  // numbers of groups that must be done before; each is smaller
  bool awaited = false;            // a dependent needs its result; set by launch_order
  bool dependent_launch = false;   // its kernel waits for its predecessors itself
};

// `dependencies` lists, by position, the earlier positions that must be done. `tasks` is the number
// of tasks of a node in a megakernel, 0 if it cannot be part of one.
//
// A node joins an earlier group if the graph of groups stays acyclic and no node with dependents is
// delayed. Small updates may be delayed, because no node depends on them. A megakernel of several
// levels runs on few blocks, so it takes only nodes of few tasks.
std::vector<LaunchGroup> launch_groups_of(const std::vector<std::vector<std::size_t>>& dependencies,
                                          const std::vector<int>& tasks);

// The same groups in the best launch order. Groups without dependents come last. Among the others,
// the head of the costliest chain is first; of equal chains, the one with more dependents. By
// position: `costs`, above zero, and whether a later node needs the result, not only its memory.
std::vector<LaunchGroup> launch_order(const std::vector<LaunchGroup>& groups,
                                      const std::vector<double>& costs,
                                      const std::vector<bool>& needed);

}  // namespace traingraph::cuda
