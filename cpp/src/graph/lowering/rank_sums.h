#pragma once

#include <vector>

#include "graph/lowering/lowering.h"

namespace traingraph {

// `start` of a gradient on its way from a loss, by this rank's share of the global batch: of a mean
// its rows among all, of a sum 1. 0 where its rows do not count. Without ranks `start` itself.
ir::ValueId share_of_rank(const GraphState& state, Lowering& lowering, ir::ValueId start,
                          bool is_mean);

// What the forward pass writes to parameters, and ranks have differently. Raises Unsupported for
// what follows from the rows of one rank and is no statistic.
std::vector<ir::ValueId> written_by_rank(const Lowering& lowering);

// Sums of these values over all ranks, in their order: gradients travel in buckets, in the order in
// which they become ready. `exchanges_in`: the phase that runs once in a step. `in_bfloat16`: how
// float32 travels.
std::vector<ir::ValueId> sums_over_ranks(const GraphState& state, Lowering& lowering,
                                         const std::vector<ir::ValueId>& values,
                                         ir::Phase exchanges_in, bool in_bfloat16 = false);

}  // namespace traingraph
