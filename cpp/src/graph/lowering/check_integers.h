#pragma once

#include <string>

#include "graph/lowering/lowering.h"

namespace traingraph {

// Raises InvalidArgument naming place and value of the first label, index or length out of its
// range. What lies in a GPU's memory is not looked at here: indices are inside the program, labels
// and lengths nowhere, for kernels read no memory by them.
void check_range(const std::string& name, const IntegerRange& range, const ir::Type& type,
                 const TensorData& data);
// The same for a constant, as the next execution will read it.
void check_range(const LoweredGraph::Slot& slot);
// What both say of one at `position`.
[[noreturn]] void refuse_integer(const std::string& name, const IntegerRange& range,
                                 const Shape& shape, std::int64_t position, std::int64_t value);

}  // namespace traingraph
