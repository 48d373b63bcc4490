#pragma once

#include <cstddef>
#include <vector>

// Which nodes of a run are launched together.
namespace traingraph::cuda {

// One launch: a node, or a small program (small_program.h) of several.
struct Unit {
  // Nodes by their position in the order; those of a level do not wait for each other.
  std::vector<std::vector<std::size_t>> levels;
  std::vector<std::size_t> needs;  // numbers of units that must be done before; each is smaller
  bool awaited = false;            // by one that needs it; only where launch_order says so
  bool early = false;              // it waits itself for what it needs
};

// `dependencies` is by position: the positions before it that must be done. `tasks` is how many
// tasks a node has as a part of a small program, 0 for what cannot be one.
//
// A node joins an earlier unit when the graph of units stays free of cycles and when nothing that
// others wait for is put off; updates are, for nobody waits for them. A program of
// several levels runs on few blocks, so it takes only nodes of few tasks.
std::vector<Unit> units_of(const std::vector<std::vector<std::size_t>>& dependencies,
                           const std::vector<int>& tasks);

// The same units in the order in which they are best launched: what no other needs comes last, and
// else first what the costliest chain of others waits for; of two alike the one that more wait for.
// By position: `costs`, above zero, and whether a later node needs it, not just its place in the
// order.
std::vector<Unit> launch_order(const std::vector<Unit>& units, const std::vector<double>& costs,
                               const std::vector<bool>& needed);

}  // namespace traingraph::cuda
