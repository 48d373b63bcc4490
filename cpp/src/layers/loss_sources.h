#pragma once

#include "layers/emitter.h"

// How losses read their sources.
namespace traingraph {

// The extents that are not 1, behind the first ones, which stay: axis 0 is the batch.
Shape without_ones(const Shape& shape, std::size_t first = 1);

// Labels in the prediction's shape, of which extents of 1 behind axis 0 may be left out.
ir::ValueId labels_like_prediction(const Emitter& e);

}  // namespace traingraph
