#pragma once

#include "graph/program/compiled_graph.h"

namespace traingraph {

// Raises what CHECK_NUMERICS says about this value, which is not finite.
[[noreturn]] void raise_not_finite(const Backend& backend, const LeftValue& left,
                                   std::int64_t step);

}  // namespace traingraph
