#pragma once

#include <optional>

#include <traingraph/mps/kernel.h>

#include "ir/attributes.h"

namespace traingraph::mps {

// A kernel's class, and the numbers among its properties, as its archive has them, and in what its
// data source has said; nothing for a class of the program's own. Results are left empty.
std::optional<ir::NamedKernelAttributes> named_kernel(const Kernel& kernel);

}  // namespace traingraph::mps
