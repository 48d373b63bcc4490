#include "optimizer_parts.h"

#include "batch_normalization.h"

namespace apple {
namespace {

MPSVector* vector_over(id<MTLBuffer> buffer, NSUInteger offset, NSUInteger length) {
  MPSVectorDescriptor* descriptor =
      [MPSVectorDescriptor vectorDescriptorWithLength:length dataType:MPSDataTypeFloat32];
  return [[[MPSVector alloc] initWithBuffer:buffer offset:offset
                                 descriptor:descriptor] autorelease];
}

NSUInteger length_of(id<MTLBuffer> buffer) { return [buffer length] / sizeof(float); }

}  // namespace

OptimizedParts parts_of(MPSCNNConvolutionGradientState* gradient,
                        MPSCNNConvolutionWeightsAndBiasesState* source,
                        MPSCNNConvolutionWeightsAndBiasesState* result,
                        id<MTLCommandBuffer> commands, const char* what) {
  use_state(result, commands, what);
  read_state(gradient, commands, what);
  read_state(source, commands, what);
  OptimizedParts parts;
  const NSUInteger weights = length_of(gradient->_gradientForWeights);
  parts.push_back({vector_over(gradient->_gradientForWeights, 0, weights),
                   vector_over(source->_weights, source->_weightsOffset, weights),
                   vector_over(result->_weights, result->_weightsOffset, weights), 0});
  if (source->_biases == nil || result->_biases == nil) return parts;
  const NSUInteger biases = length_of(gradient->_gradientForBiases);
  parts.push_back({vector_over(gradient->_gradientForBiases, 0, biases),
                   vector_over(source->_biases, source->_biasesOffset, biases),
                   vector_over(result->_biases, result->_biasesOffset, biases), 1});
  return parts;
}

OptimizedParts parts_of(MPSCNNBatchNormalizationState* gradient,
                        MPSCNNBatchNormalizationState* source,
                        MPSCNNNormalizationGammaAndBetaState* result, id<MTLCommandBuffer> commands,
                        const char* what) {
  use_state(result, commands, what);
  read_state(gradient, commands, what);
  if (source != gradient) read_state(source, commands, what);
  if ([gradient gradientForGamma] == nil)
    broken(what, "the statistics of the gradient were not encoded into its state");
  const NSUInteger length = length_of([gradient gradientForGamma]);
  return {{vector_over([gradient gradientForGamma], 0, length),
           vector_over([source gamma], 0, length), vector_over(result->_gamma, 0, length), 0},
          {vector_over([gradient gradientForBeta], 0, length),
           vector_over([source beta], 0, length), vector_over(result->_beta, 0, length), 1}};
}

NSArray<MPSVector*>* rows_of(MPSMatrix* matrix) {
  if (matrix == nil) return nil;
  NSMutableArray* rows = [NSMutableArray array];
  for (NSUInteger which = 0; which < [matrix matrices]; ++which)
    for (NSUInteger row = 0; row < [matrix rows]; ++row)
      [rows addObject:vector_over(
                          [matrix data],
                          [matrix offset] + which * [matrix matrixBytes] + row * [matrix rowBytes],
                          [matrix columns])];
  return rows;
}

OptimizedParts parts_of(MPSMatrix* gradient, MPSMatrix* values, MPSMatrix* result,
                        const char* what) {
  NSArray* from = rows_of(gradient);
  NSArray* old = rows_of(values);
  NSArray* to = rows_of(result);
  if ([from count] == 0 || [from count] != [old count] || [from count] != [to count])
    broken(what, "its matrices differ in size");
  OptimizedParts parts;
  for (NSUInteger row = 0; row < [from count]; ++row)
    parts.push_back(
        {[from objectAtIndex:row], [old objectAtIndex:row], [to objectAtIndex:row], row});
  return parts;
}

MPSVector* slot(NSArray<MPSVector*>* vectors, const OptimizedPart& part, const char* what) {
  if (vectors == nil) return nil;
  if (part.place >= [vectors count]) broken(what, "there are fewer slots than vectors");
  return [vectors objectAtIndex:part.place];
}

}  // namespace apple
