#pragma once

#include "graph/state/graph_state.h"

namespace traingraph {

// What tensors are called while they have no label. Of a layer: "3.Convolution.weights",
// "3.Convolution.result", and for its first reader what nobody else names, "4.Multiply.source[1]".
void name_by_place(const NodeRecord& node);
// By the name of their declaration, unless a layer has them or gives them.
void name_by_declaration(const NamedTensors& tensors);

}  // namespace traingraph
