#pragma once

#include "runtime/memory/host_backend.h"

namespace traingraph::reference {

// Plain loops in float32 and float64 over plain layouts: the reference implementation, and the
// fallback of other host backends. Operands of 16 bits are computed with in float32.
const std::vector<KernelEntry>& table();

// A backend's own entries, and these behind them.
std::vector<KernelEntry> table_behind(std::vector<KernelEntry> own);

// The kernel of reorders between any two layouts of any element type.
KernelEntry reorder_entry();

// The sum over ranks that train together.
KernelEntry all_reduce_entry();

const Backend& backend();

}  // namespace traingraph::reference
