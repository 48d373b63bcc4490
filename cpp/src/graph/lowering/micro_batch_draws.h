#pragma once

#include <vector>

#include "layers/emitter.h"

namespace traingraph {

// By value: whether what it is follows from arrays that the caller brings.
std::vector<bool> values_of_data(const ir::Graph& graph);

// Call on a forward part over micro-batches, or over ranks. Where no larger batch exists, because
// the samples have no axis of their own, each of them draws its own numbers over what it computes.
// Elsewhere it draws those that its rows have in the larger batch.
void draw_by_micro_batch(Lowering& lowering);

}  // namespace traingraph
