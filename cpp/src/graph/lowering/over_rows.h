#pragma once

#include <vector>

#include <traingraph/layer.h>

namespace traingraph {

// What a tensor is over the rows of a batch, which may be spread over ranks and micro-batches.
enum class OverRows {
  alike,  // the same whatever the rows are
  each,   // of each row by itself
  mean,   // of something of each row
  sum,    // of something of each row
  mixed,  // something of each row, and means, added
  other,  // of all rows together
};

// Of a layer's results, by what its sources are.
OverRows over_rows(const Layer& layer, const std::vector<OverRows>& sources);

}  // namespace traingraph
