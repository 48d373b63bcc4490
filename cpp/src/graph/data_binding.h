#pragma once

#include <string>

#include "graph/lowering.h"

namespace traingraph {

// Raises a typed error unless `data` can stand for the slot's tensor with this batch size; `type`
// is the program's type of the slot, the backend the graph's.
void check_data(const BoundSlot& slot, const ir::Type& type, const TensorData& data,
                const Backend& backend);
// Raises unless `data` is room for a result of this type.
void check_output(const std::string& name, const ir::Type& type, const TensorData& data,
                  const Backend& backend);
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
// "'a', 'b'" of a declaration, for messages.
std::string names_of(const NamedTensors& tensors);
// "'x' (8, 3), 'y' (4,)" of all that is declared.
std::string declared_shapes(const GraphState& graph);

}  // namespace traingraph
