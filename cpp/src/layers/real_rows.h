// Programs that take fewer rows than their batch. The rows that a call has not brought repeat its
// last one, so that they are as finite as that is; what sums over the batch counts them as zeros.
#pragma once

#include "layers/emitter.h"

namespace traingraph {

// x with zeros in the rows that are not the call's; x itself in other programs, and without a batch
// on axis 0. No gradient flows into those rows.
ir::ValueId real_rows(Lowering& lowering, ir::ValueId x);

// factor / count times a sum over real_rows of a value of this type, where `count` is the number of
// elements that each sum would have over the whole batch.
ir::ValueId mean_of_rows(Lowering& lowering, ir::ValueId sum, const ir::Type& summed, double factor,
                         double count);

}  // namespace traingraph
