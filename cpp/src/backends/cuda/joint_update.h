#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/kernel.h"

// The gradient of weights and their update as one piece of work: while tensor cores are at one
// tile of the gradient, other warps update the weights with the tile before. What a product is
// bound by, caches and tensor cores, an update leaves idle, and it is bound by memory.
namespace traingraph::cuda {

// The most that go into one launch, so that no multiprocessor waits at the end of each.
constexpr std::size_t kMostJoined = 4;

// What is known of a product and its update before others are joined with them.
class JointPart {
 public:
  virtual ~JointPart() = default;
};

// A product aᵀ b and what alone reads it, an update; the gradient itself is nowhere. Null where
// they cannot be joined or would not gain: in TF32 on compute capability 9.0 alone, for large
// weights and not too long sums.
std::unique_ptr<JointPart> join(const ir::Graph& graph, const ir::Node& product,
                                const ir::Node& update, const Context& context);

// One launch for the updates of these, at most kMostJoined and of parts of one type.
std::unique_ptr<Kernel> together(const std::vector<const JointPart*>& parts);

}  // namespace traingraph::cuda
