// The vectors that an optimizer updates together: of the states of a layer, or the rows of
// matrices.
#pragma once
#include <vector>

#include "doubles.h"

namespace apple {

// One of them; `place` is where its slots stand in their arrays.
struct OptimizedPart {
  MPSVector *gradient, *values, *result;
  NSUInteger place;
};
using OptimizedParts = std::vector<OptimizedPart>;

// Weights, and biases where both states have some. Reads the states.
OptimizedParts parts_of(MPSCNNConvolutionGradientState* gradient,
                        MPSCNNConvolutionWeightsAndBiasesState* source,
                        MPSCNNConvolutionWeightsAndBiasesState* result,
                        id<MTLCommandBuffer> commands, const char* what);
// Gamma and beta. Reads the states, once where they are one.
OptimizedParts parts_of(MPSCNNBatchNormalizationState* gradient,
                        MPSCNNBatchNormalizationState* source,
                        MPSCNNNormalizationGammaAndBetaState* result, id<MTLCommandBuffer> commands,
                        const char* what);
OptimizedParts parts_of(MPSMatrix* gradient, MPSMatrix* values, MPSMatrix* result,
                        const char* what);

// The rows of a matrix; nil where it is nil.
NSArray<MPSVector*>* rows_of(MPSMatrix* matrix);

// The slot of a part; nil where there are no slots.
MPSVector* slot(NSArray<MPSVector*>* vectors, const OptimizedPart& part, const char* what);

}  // namespace apple
