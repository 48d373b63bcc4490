#pragma once

namespace traingraph {

struct LoweredGraph;

// Labels, indices and lengths are checked against what they count before they reach a kernel:
// writes into the slots what their integers may be.
void find_integer_ranges(LoweredGraph& lowered);

// Indices that nobody can look at before: adds ops to the forward phase that do, and whose result
// is read behind it. `on_gpu`: arrays may lie in a GPU's memory.
void add_index_checks(LoweredGraph& lowered, bool on_gpu);

}  // namespace traingraph
