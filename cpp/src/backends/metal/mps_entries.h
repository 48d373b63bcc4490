#pragma once

#include <vector>

#include "backends/metal/kernel.h"

namespace traingraph::metal {

// The lines of the table whose kernels are Metal Performance Shaders'.
std::vector<KernelEntry> mps_entries();

}  // namespace traingraph::metal
