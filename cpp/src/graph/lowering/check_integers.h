#pragma once

#include <string>

#include "graph/lowering/lowering.h"

namespace traingraph {

// Which of all samples the rows of a batch are: those at `order` from the first on; null: of the
// samples as they were given.
struct SampleRows {
  const std::int64_t* order = nullptr;
  std::int64_t first = 0;
  std::int64_t count = 0;  // of all; 0: what is given are no samples
};

// Raises InvalidArgument naming place and value of the first label, index or length out of its
// range. What lies in a GPU's memory is not looked at here: indices are inside the program, labels
// and lengths nowhere, for kernels read no memory by them.
void check_range(const std::string& name, const IntegerRange& range, const ir::Type& type,
                 const TensorData& data, const SampleRows& samples = {});
// The same for a constant, as the next execution will read it.
void check_range(const LoweredGraph::Slot& slot);
// Where the caller finds an element of a tensor of this type: among all samples.
struct IntegerPlace {
  Shape shape;
  std::int64_t position;  // in row-major order
};
IntegerPlace place_in(const ir::Type& type, std::int64_t position, const SampleRows& samples);
// What both say of one there.
[[noreturn]] void refuse_integer(const std::string& name, const IntegerRange& range,
                                 const IntegerPlace& place, std::int64_t value);

}  // namespace traingraph
