#pragma once

#include "runtime/host_backend.h"

// Apple's pages leave room for readings that could not be tried on a Mac. What rests on one is used
// only after a small case has come out right on the machine itself, once per process.
namespace traingraph::bnns {

struct SmallCase {
  ir::Op op;
  ir::Attributes attributes;
  std::vector<Shape> inputs, results;  // of float32
};

// Whether the kernel computes what the reference loops do, twice with other numbers, so that a
// kernel that has kept the first ones is found. A call that fails is a no.
bool comes_out_right(const SmallCase& small,
                     std::unique_ptr<Kernel> (*make)(const ir::Graph&, const ir::Node&));

// The result of a window over `source`, (H, W) → (P, Q).
std::int64_t positions(const ir::Window& window, std::size_t axis, std::int64_t source);

}  // namespace traingraph::bnns
