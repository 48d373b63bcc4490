#pragma once

#include "graph/lowering/check_integers.h"
#include "graph/program/compiled_graph.h"

namespace traingraph {

// Raises what CHECK_NUMERICS says about this value, which is not finite: of samples that were
// given, which one.
[[noreturn]] void raise_not_finite(const Backend& backend, const LeftValue& left, std::int64_t step,
                                   const SampleRows& samples);

}  // namespace traingraph
