#pragma once

#include <memory>
#include <vector>

#include "graph/lowering/lowering.h"

namespace traingraph {

struct BufferParts;

// Of optimizer buffers that these ranks share.
std::shared_ptr<const BufferParts> parts_over_ranks(
    const std::shared_ptr<distributed::Ranks>& ranks);

// This rank's part of a value of a parameter's shape: (elements of a part), zeros behind the end.
ir::ValueId part_of_rank(const GraphState& state, Lowering& lowering, ir::ValueId whole);
// A value of this type whose sum over ranks is all of their parts, to the last bit.
ir::ValueId whole_of_part(const GraphState& state, Lowering& lowering, ir::ValueId part,
                          const ir::Type& type);

}  // namespace traingraph
