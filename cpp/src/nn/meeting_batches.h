// How values of unlike rank broadcast: the batch of one value meets that of another one, never
// another axis.
#pragma once

#include <vector>

#include "nn/expression.h"

namespace traingraph::nn {

// The sources of a function element by element. Those with the batch on axis 0 have one rank, or it
// raises ShapeError; leading extents of 1 of a value without the batch are dropped where it has
// more axes, as those of a mean over everything.
std::vector<TensorPtr> meeting_batches(Drawing& drawing, const char* function,
                                       std::vector<TensorPtr> sources);

// The same of the factors of a product of matrices, whose rows and columns are of each sample.
std::vector<TensorPtr> meeting_matrices(Drawing& drawing, std::vector<TensorPtr> factors);

}  // namespace traingraph::nn
