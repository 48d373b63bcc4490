#pragma once

#include <string>

#include "layers/emitter.h"

namespace traingraph {

// Where rows of the batch meet, so that those which a call has not brought would count: the layer
// that mixes them, or "". Sums over layers/real_rows.h are no such place.
std::string where_rows_meet(const Lowering& lowering);

}  // namespace traingraph
