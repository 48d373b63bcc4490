// Optimizers over the states of layers and over matrices: the same update of each of their vectors.
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnoptimizer
#include "optimizer_parts.h"

// The rest of these classes stands in optimizers.mm.
#pragma clang diagnostic ignored "-Wobjc-protocol-method-implementation"

namespace {

using apple::parts_of;
using apple::rows_of;
using apple::slot;
using Part = apple::OptimizedPart;
using Parts = apple::OptimizedParts;
using Vectors = NSArray<MPSVector*>*;

}  // namespace

@implementation MPSNNOptimizerStochasticGradientDescent (States)
- (instancetype)initWithDevice:(id<MTLDevice>)device
                 momentumScale:(float)momentumScale
            useNestrovMomentum:(BOOL)useNestrovMomentum
           optimizerDescriptor:(MPSNNOptimizerDescriptor*)optimizerDescriptor {
  return [self initWithDevice:device
                momentumScale:momentumScale
          useNesterovMomentum:useNestrovMomentum
          optimizerDescriptor:optimizerDescriptor];
}
- (void)apple_encode:(id<MTLCommandBuffer>)commandBuffer
               parts:(const Parts&)parts
            momentum:(Vectors)momentum {
  for (const Part& part : parts)
    [self encodeToCommandBuffer:commandBuffer
            inputGradientVector:part.gradient
              inputValuesVector:part.values
            inputMomentumVector:slot(momentum, part, "MPSNNOptimizerStochasticGradientDescent")
             resultValuesVector:part.result];
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
     convolutionGradientState:(MPSCNNConvolutionGradientState*)gradientState
       convolutionSourceState:(MPSCNNConvolutionWeightsAndBiasesState*)sourceState
         inputMomentumVectors:(NSArray<MPSVector*>*)inputMomentumVectors
                  resultState:(MPSCNNConvolutionWeightsAndBiasesState*)resultState {
  [self apple_encode:commandBuffer
               parts:parts_of(gradientState, sourceState, resultState, commandBuffer,
                              "MPSNNOptimizerStochasticGradientDescent")
            momentum:inputMomentumVectors];
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
      batchNormalizationState:(MPSCNNBatchNormalizationState*)state
         inputMomentumVectors:(NSArray<MPSVector*>*)inputMomentumVectors
                  resultState:(MPSCNNNormalizationGammaAndBetaState*)resultState {
  [self apple_encode:commandBuffer
               parts:parts_of(state, state, resultState, commandBuffer,
                              "MPSNNOptimizerStochasticGradientDescent")
            momentum:inputMomentumVectors];
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
    batchNormalizationGradientState:(MPSCNNBatchNormalizationState*)gradientState
      batchNormalizationSourceState:(MPSCNNBatchNormalizationState*)sourceState
               inputMomentumVectors:(NSArray<MPSVector*>*)inputMomentumVectors
                        resultState:(MPSCNNNormalizationGammaAndBetaState*)resultState {
  [self apple_encode:commandBuffer
               parts:parts_of(gradientState, sourceState, resultState, commandBuffer,
                              "MPSNNOptimizerStochasticGradientDescent")
            momentum:inputMomentumVectors];
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
          inputGradientMatrix:(MPSMatrix*)inputGradientMatrix
            inputValuesMatrix:(MPSMatrix*)inputValuesMatrix
          inputMomentumMatrix:(MPSMatrix*)inputMomentumMatrix
           resultValuesMatrix:(MPSMatrix*)resultValuesMatrix {
  [self apple_encode:commandBuffer
               parts:parts_of(inputGradientMatrix, inputValuesMatrix, resultValuesMatrix,
                              "MPSNNOptimizerStochasticGradientDescent")
            momentum:rows_of(inputMomentumMatrix)];
}
@end

@implementation MPSNNOptimizerRMSProp (States)
- (void)apple_encode:(id<MTLCommandBuffer>)commandBuffer
               parts:(const Parts&)parts
             squares:(Vectors)squares {
  for (const Part& part : parts)
    [self encodeToCommandBuffer:commandBuffer
            inputGradientVector:part.gradient
              inputValuesVector:part.values
        inputSumOfSquaresVector:slot(squares, part, "MPSNNOptimizerRMSProp")
             resultValuesVector:part.result];
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
     convolutionGradientState:(MPSCNNConvolutionGradientState*)gradientState
       convolutionSourceState:(MPSCNNConvolutionWeightsAndBiasesState*)sourceState
     inputSumOfSquaresVectors:(NSArray<MPSVector*>*)inputSumOfSquaresVectors
                  resultState:(MPSCNNConvolutionWeightsAndBiasesState*)resultState {
  [self apple_encode:commandBuffer
               parts:parts_of(gradientState, sourceState, resultState, commandBuffer,
                              "MPSNNOptimizerRMSProp")
             squares:inputSumOfSquaresVectors];
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
      batchNormalizationState:(MPSCNNBatchNormalizationState*)state
     inputSumOfSquaresVectors:(NSArray<MPSVector*>*)inputSumOfSquaresVectors
                  resultState:(MPSCNNNormalizationGammaAndBetaState*)resultState {
  [self apple_encode:commandBuffer
               parts:parts_of(state, state, resultState, commandBuffer, "MPSNNOptimizerRMSProp")
             squares:inputSumOfSquaresVectors];
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
    batchNormalizationGradientState:(MPSCNNBatchNormalizationState*)gradientState
      batchNormalizationSourceState:(MPSCNNBatchNormalizationState*)sourceState
           inputSumOfSquaresVectors:(NSArray<MPSVector*>*)inputSumOfSquaresVectors
                        resultState:(MPSCNNNormalizationGammaAndBetaState*)resultState {
  [self apple_encode:commandBuffer
               parts:parts_of(gradientState, sourceState, resultState, commandBuffer,
                              "MPSNNOptimizerRMSProp")
             squares:inputSumOfSquaresVectors];
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
          inputGradientMatrix:(MPSMatrix*)inputGradientMatrix
            inputValuesMatrix:(MPSMatrix*)inputValuesMatrix
      inputSumOfSquaresMatrix:(MPSMatrix*)inputSumOfSquaresMatrix
           resultValuesMatrix:(MPSMatrix*)resultValuesMatrix {
  [self apple_encode:commandBuffer
               parts:parts_of(inputGradientMatrix, inputValuesMatrix, resultValuesMatrix,
                              "MPSNNOptimizerRMSProp")
             squares:rows_of(inputSumOfSquaresMatrix)];
}
@end

@implementation MPSNNOptimizerAdam (States)
// All parts are of one step.
- (void)apple_encode:(id<MTLCommandBuffer>)commandBuffer
               parts:(const Parts&)parts
            momentum:(Vectors)momentum
            velocity:(Vectors)velocity
             maximum:(Vectors)maximum {
  const NSUInteger before = _timeStep;
  for (const Part& part : parts) {
    _timeStep = before;
    [self encodeToCommandBuffer:commandBuffer
            inputGradientVector:part.gradient
              inputValuesVector:part.values
            inputMomentumVector:slot(momentum, part, "MPSNNOptimizerAdam")
            inputVelocityVector:slot(velocity, part, "MPSNNOptimizerAdam")
          maximumVelocityVector:slot(maximum, part, "MPSNNOptimizerAdam")
             resultValuesVector:part.result];
  }
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
     convolutionGradientState:(MPSCNNConvolutionGradientState*)gradientState
       convolutionSourceState:(MPSCNNConvolutionWeightsAndBiasesState*)sourceState
         inputMomentumVectors:(NSArray<MPSVector*>*)inputMomentumVectors
         inputVelocityVectors:(NSArray<MPSVector*>*)inputVelocityVectors
                  resultState:(MPSCNNConvolutionWeightsAndBiasesState*)resultState {
  [self apple_encode:commandBuffer
               parts:parts_of(gradientState, sourceState, resultState, commandBuffer,
                              "MPSNNOptimizerAdam")
            momentum:inputMomentumVectors
            velocity:inputVelocityVectors
             maximum:nil];
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
      batchNormalizationState:(MPSCNNBatchNormalizationState*)state
         inputMomentumVectors:(NSArray<MPSVector*>*)inputMomentumVectors
         inputVelocityVectors:(NSArray<MPSVector*>*)inputVelocityVectors
                  resultState:(MPSCNNNormalizationGammaAndBetaState*)resultState {
  [self apple_encode:commandBuffer
               parts:parts_of(state, state, resultState, commandBuffer, "MPSNNOptimizerAdam")
            momentum:inputMomentumVectors
            velocity:inputVelocityVectors
             maximum:nil];
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
    batchNormalizationGradientState:(MPSCNNBatchNormalizationState*)gradientState
      batchNormalizationSourceState:(MPSCNNBatchNormalizationState*)sourceState
               inputMomentumVectors:(NSArray<MPSVector*>*)inputMomentumVectors
               inputVelocityVectors:(NSArray<MPSVector*>*)inputVelocityVectors
                        resultState:(MPSCNNNormalizationGammaAndBetaState*)resultState {
  [self apple_encode:commandBuffer
               parts:parts_of(gradientState, sourceState, resultState, commandBuffer,
                              "MPSNNOptimizerAdam")
            momentum:inputMomentumVectors
            velocity:inputVelocityVectors
             maximum:nil];
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
     convolutionGradientState:(MPSCNNConvolutionGradientState*)gradientState
       convolutionSourceState:(MPSCNNConvolutionWeightsAndBiasesState*)sourceState
         inputMomentumVectors:(NSArray<MPSVector*>*)inputMomentumVectors
         inputVelocityVectors:(NSArray<MPSVector*>*)inputVelocityVectors
       maximumVelocityVectors:(NSArray<MPSVector*>*)maximumVelocityVectors
                  resultState:(MPSCNNConvolutionWeightsAndBiasesState*)resultState {
  [self apple_encode:commandBuffer
               parts:parts_of(gradientState, sourceState, resultState, commandBuffer,
                              "MPSNNOptimizerAdam")
            momentum:inputMomentumVectors
            velocity:inputVelocityVectors
             maximum:maximumVelocityVectors];
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
      batchNormalizationState:(MPSCNNBatchNormalizationState*)state
         inputMomentumVectors:(NSArray<MPSVector*>*)inputMomentumVectors
         inputVelocityVectors:(NSArray<MPSVector*>*)inputVelocityVectors
       maximumVelocityVectors:(NSArray<MPSVector*>*)maximumVelocityVectors
                  resultState:(MPSCNNNormalizationGammaAndBetaState*)resultState {
  [self apple_encode:commandBuffer
               parts:parts_of(state, state, resultState, commandBuffer, "MPSNNOptimizerAdam")
            momentum:inputMomentumVectors
            velocity:inputVelocityVectors
             maximum:maximumVelocityVectors];
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
    batchNormalizationGradientState:(MPSCNNBatchNormalizationState*)gradientState
      batchNormalizationSourceState:(MPSCNNBatchNormalizationState*)sourceState
               inputMomentumVectors:(NSArray<MPSVector*>*)inputMomentumVectors
               inputVelocityVectors:(NSArray<MPSVector*>*)inputVelocityVectors
             maximumVelocityVectors:(NSArray<MPSVector*>*)maximumVelocityVectors
                        resultState:(MPSCNNNormalizationGammaAndBetaState*)resultState {
  [self apple_encode:commandBuffer
               parts:parts_of(gradientState, sourceState, resultState, commandBuffer,
                              "MPSNNOptimizerAdam")
            momentum:inputMomentumVectors
            velocity:inputVelocityVectors
             maximum:maximumVelocityVectors];
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
          inputGradientMatrix:(MPSMatrix*)inputGradientMatrix
            inputValuesMatrix:(MPSMatrix*)inputValuesMatrix
          inputMomentumMatrix:(MPSMatrix*)inputMomentumMatrix
          inputVelocityMatrix:(MPSMatrix*)inputVelocityMatrix
           resultValuesMatrix:(MPSMatrix*)resultValuesMatrix {
  [self apple_encode:commandBuffer
               parts:parts_of(inputGradientMatrix, inputValuesMatrix, resultValuesMatrix,
                              "MPSNNOptimizerAdam")
            momentum:rows_of(inputMomentumMatrix)
            velocity:rows_of(inputVelocityMatrix)
             maximum:nil];
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
          inputGradientMatrix:(MPSMatrix*)inputGradientMatrix
            inputValuesMatrix:(MPSMatrix*)inputValuesMatrix
          inputMomentumMatrix:(MPSMatrix*)inputMomentumMatrix
          inputVelocityMatrix:(MPSMatrix*)inputVelocityMatrix
        maximumVelocityMatrix:(MPSMatrix*)maximumVelocityMatrix
           resultValuesMatrix:(MPSMatrix*)resultValuesMatrix {
  [self apple_encode:commandBuffer
               parts:parts_of(inputGradientMatrix, inputValuesMatrix, resultValuesMatrix,
                              "MPSNNOptimizerAdam")
            momentum:rows_of(inputMomentumMatrix)
            velocity:rows_of(inputVelocityMatrix)
             maximum:rows_of(maximumVelocityMatrix)];
}
@end
