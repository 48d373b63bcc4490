#pragma once

#include "runtime/host_backend.h"

namespace traingraph::reference {

// Plain loops in float32 and float64 over plain layouts: the oracle, and the fallback of other
// host backends.
const std::vector<KernelEntry>& table();

const Backend& backend();

}  // namespace traingraph::reference
