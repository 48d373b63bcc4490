#pragma once

#include <optional>

#include "ir/graph.h"

namespace traingraph::cpu {

// An update under dynamic loss scaling, whose results are the old numbers where the step does not
// count (UpdateWriter::chosen): what is left of it where `counts` is 1.
struct CountedUpdate {
  ir::Node node;
  ir::ValueId counts;
};

std::optional<CountedUpdate> counted_update(const ir::Node& node);

}  // namespace traingraph::cpu
