#pragma once

#include "backends/reference/call.h"

namespace traingraph::reference {

using Compute = void (*)(const Call&);

// A kernel for operands of 16 bits: they are widened to float32 in the workspace, the float32 loops
// run there, and results of 16 bits are rounded once at the end.
std::unique_ptr<Kernel> make_widened(const ir::Graph& graph, const ir::Node& node, Compute compute);

// A cast to or from float64, rounded once.
std::unique_ptr<Kernel> make_wide_cast(const ir::Graph& graph, const ir::Node& node);

}  // namespace traingraph::reference
