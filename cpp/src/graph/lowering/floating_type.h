#pragma once

#include <set>
#include <vector>

#include "graph/state/graph_state.h"

namespace traingraph {

// The one floating-point type that layers compute in: float32 for what they read in 16 bits.
// `tensor_parameters` are those of the nodes' sources that are parameters. Raises DataTypeError for
// two types, and for parameters that are of 16 bits or no floating-point numbers.
DataType floating_type_of(const std::vector<NodeRecord>& nodes,
                          const std::set<const Tensor*>& tensor_parameters);

// The same for one layer's parameters, beside its first source of floating-point numbers; the layer
// itself compares its sources.
void check_parameter_types(const Layer& layer, const std::vector<TensorPtr>& sources);

}  // namespace traingraph
