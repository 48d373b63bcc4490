#pragma once

#include <algorithm>
#include <vector>

#include "ir/graph.h"

namespace traingraph::passes {

// What an elementwise op over these inputs has to say about results that have their types already:
// nothing where they are of the inputs' joint type.
inline std::vector<DataType> stated_types(const ir::Graph& graph,
                                          const std::vector<ir::ValueId>& inputs,
                                          const std::vector<ir::ValueId>& results) {
  std::vector<DataType> types;
  for (ir::ValueId result : results) types.push_back(graph.type(result).data_type);
  const DataType joint = inputs.empty() ? types[0] : ir::joint_type(graph, inputs);
  const bool same =
      std::all_of(types.begin(), types.end(), [&](DataType type) { return type == joint; });
  return same ? std::vector<DataType>() : types;
}

}  // namespace traingraph::passes
