#pragma once

namespace traingraph {

struct LoweredGraph;

// Labels and indices are checked against what they count before they reach a kernel: writes into
// the slots what their integers may be.
void find_integer_ranges(LoweredGraph& lowered);

}  // namespace traingraph
