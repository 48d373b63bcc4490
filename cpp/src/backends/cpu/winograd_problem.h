// Convolutions that Winograd's method computes (isa/products/winograd.h), and how they are cut.
#pragma once

#include "backends/cpu/isa/products/winograd.h"
#include "runtime/backend.h"

namespace traingraph::cpu {

// The gradient of x is the convolution of dy with turned weights, so `source` is dy and `result` dx
// there. The gradient of weights sums up source x times dy, which is its `result` here.
struct WinogradProblem {
  ir::ValueId source, result, weights;
  std::int64_t channels, columns;  // of the source, of the result
  WinogradImages source_images, result_images;
  std::int64_t tiles;

  // Of this method, transforms included, and of direct convolution. Units: multiplications.
  double operations() const;
  double direct_operations() const;
};

// Also whether it is faster, and not turned off.
Support winograd_takes(const ir::Graph& graph, const ir::Node& node);
// Whether it is faster over widened operands than direct convolution of bfloat16.
bool winograd_beats_bfloat16(const ir::Graph& graph, const ir::Node& node);
// Of a node that it takes.
WinogradProblem winograd_problem_of(const ir::Graph& graph, const ir::Node& node);

// Tiles are computed in blocks. Where there are many and the transformed weights stay in a cache,
// one thread computes a block from its source to its result, in the second cache. Elsewhere all
// threads share each step of a block; large weights are read for many tiles at once, in slices of
// the columns.
struct WinogradCut {
  bool apart;  // blocks are computed by one thread each
  std::int64_t tiles, blocks;
  std::int64_t columns;  // of a slice
};
WinogradCut winograd_cut_of(const WinogradProblem& problem);

}  // namespace traingraph::cpu
