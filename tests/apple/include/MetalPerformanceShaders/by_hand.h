// Methods that Apple's pages show and the inventory lacks, with the address of each page.
#pragma once

// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnforwardloss/encodebatch(commandbuffer:sourceimages:labels:weights:destinationstates:destinationimages:)
@interface MPSNNForwardLoss (ByHand)
- (void)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                      sourceImages:(MPSImageBatch*)sourceImages
                            labels:(MPSImageBatch*)labels
                           weights:(MPSImageBatch*)weights
                 destinationStates:(MPSStateBatch*)destinationStates
                 destinationImages:(MPSImageBatch*)destinationImages;
@end

@interface MPSNNLossGradient (ByHand)
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnlossgradient/encodebatch(commandbuffer:sourcegradients:sourceimages:labels:weights:sourcestates:)
- (MPSImageBatch*)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                             sourceGradients:(MPSImageBatch*)sourceGradients
                                sourceImages:(MPSImageBatch*)sourceImages
                                      labels:(MPSImageBatch*)labels
                                     weights:(MPSImageBatch*)weights
                                sourceStates:(MPSStateBatch*)sourceStates;
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnlossgradient/encodebatch(commandbuffer:sourcegradients:sourceimages:labels:weights:sourcestates:destinationgradients:)
- (void)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                   sourceGradients:(MPSImageBatch*)sourceGradients
                      sourceImages:(MPSImageBatch*)sourceImages
                            labels:(MPSImageBatch*)labels
                           weights:(MPSImageBatch*)weights
                      sourceStates:(MPSStateBatch*)sourceStates
              destinationGradients:(MPSImageBatch*)destinationGradients;
@end

@interface MPSNNReshape (ByHand)
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnreshape/encode(commandbuffer:sourceimage:reshapedwidth:reshapedheight:reshapedfeaturechannels:)
- (MPSImage*)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                       sourceImage:(MPSImage*)sourceImage
                     reshapedWidth:(NSUInteger)reshapedWidth
                    reshapedHeight:(NSUInteger)reshapedHeight
           reshapedFeatureChannels:(NSUInteger)reshapedFeatureChannels;
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnreshape/encodebatch(commandbuffer:sourceimages:reshapedwidth:reshapedheight:reshapedfeaturechannels:)
- (MPSImageBatch*)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                                sourceImages:(MPSImageBatch*)sourceImages
                               reshapedWidth:(NSUInteger)reshapedWidth
                              reshapedHeight:(NSUInteger)reshapedHeight
                     reshapedFeatureChannels:(NSUInteger)reshapedFeatureChannels;
@end

// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnoptimizer/setlearningrate(_:)
@interface MPSNNOptimizer (ByHand)
- (void)setLearningRate:(float)newLearningRate;
@end

@interface MPSNNOptimizerStochasticGradientDescent (ByHand)
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnoptimizerstochasticgradientdescent/encode(commandbuffer:inputgradientmatrix:inputvaluesmatrix:inputmomentummatrix:resultvaluesmatrix:)
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
          inputGradientMatrix:(MPSMatrix*)inputGradientMatrix
            inputValuesMatrix:(MPSMatrix*)inputValuesMatrix
          inputMomentumMatrix:(MPSMatrix*)inputMomentumMatrix
           resultValuesMatrix:(MPSMatrix*)resultValuesMatrix;
@end

@interface MPSNNOptimizerRMSProp (ByHand)
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnoptimizerrmsprop/encode(commandbuffer:inputgradientmatrix:inputvaluesmatrix:inputsumofsquaresmatrix:resultvaluesmatrix:)
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
          inputGradientMatrix:(MPSMatrix*)inputGradientMatrix
            inputValuesMatrix:(MPSMatrix*)inputValuesMatrix
      inputSumOfSquaresMatrix:(MPSMatrix*)inputSumOfSquaresMatrix
           resultValuesMatrix:(MPSMatrix*)resultValuesMatrix;
@end

@interface MPSNNOptimizerAdam (ByHand)
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnoptimizeradam/encode(commandbuffer:inputgradientmatrix:inputvaluesmatrix:inputmomentummatrix:inputvelocitymatrix:resultvaluesmatrix:)
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
          inputGradientMatrix:(MPSMatrix*)inputGradientMatrix
            inputValuesMatrix:(MPSMatrix*)inputValuesMatrix
          inputMomentumMatrix:(MPSMatrix*)inputMomentumMatrix
          inputVelocityMatrix:(MPSMatrix*)inputVelocityMatrix
           resultValuesMatrix:(MPSMatrix*)resultValuesMatrix;
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnoptimizeradam/encode(commandbuffer:inputgradientvector:inputvaluesvector:inputmomentumvector:inputvelocityvector:maximumvelocityvector:resultvaluesvector:)
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
          inputGradientVector:(MPSVector*)inputGradientVector
            inputValuesVector:(MPSVector*)inputValuesVector
          inputMomentumVector:(MPSVector*)inputMomentumVector
          inputVelocityVector:(MPSVector*)inputVelocityVector
        maximumVelocityVector:(MPSVector*)maximumVelocityVector
           resultValuesVector:(MPSVector*)resultValuesVector;
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnoptimizeradam/encode(commandbuffer:inputgradientmatrix:inputvaluesmatrix:inputmomentummatrix:inputvelocitymatrix:maximumvelocitymatrix:resultvaluesmatrix:)
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
          inputGradientMatrix:(MPSMatrix*)inputGradientMatrix
            inputValuesMatrix:(MPSMatrix*)inputValuesMatrix
          inputMomentumMatrix:(MPSMatrix*)inputMomentumMatrix
          inputVelocityMatrix:(MPSMatrix*)inputVelocityMatrix
        maximumVelocityMatrix:(MPSMatrix*)maximumVelocityMatrix
           resultValuesMatrix:(MPSMatrix*)resultValuesMatrix;
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnoptimizeradam/encode(commandbuffer:convolutiongradientstate:convolutionsourcestate:inputmomentumvectors:inputvelocityvectors:maximumvelocityvectors:resultstate:)
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
     convolutionGradientState:(MPSCNNConvolutionGradientState*)convolutionGradientState
       convolutionSourceState:(MPSCNNConvolutionWeightsAndBiasesState*)convolutionSourceState
         inputMomentumVectors:(NSArray<MPSVector*>*)inputMomentumVectors
         inputVelocityVectors:(NSArray<MPSVector*>*)inputVelocityVectors
       maximumVelocityVectors:(NSArray<MPSVector*>*)maximumVelocityVectors
                  resultState:(MPSCNNConvolutionWeightsAndBiasesState*)resultState;
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnoptimizeradam/encode(commandbuffer:batchnormalizationstate:inputmomentumvectors:inputvelocityvectors:maximumvelocityvectors:resultstate:)
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
      batchNormalizationState:(MPSCNNBatchNormalizationState*)batchNormalizationState
         inputMomentumVectors:(NSArray<MPSVector*>*)inputMomentumVectors
         inputVelocityVectors:(NSArray<MPSVector*>*)inputVelocityVectors
       maximumVelocityVectors:(NSArray<MPSVector*>*)maximumVelocityVectors
                  resultState:(MPSCNNNormalizationGammaAndBetaState*)resultState;
// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnoptimizeradam/encode(commandbuffer:batchnormalizationgradientstate:batchnormalizationsourcestate:inputmomentumvectors:inputvelocityvectors:maximumvelocityvectors:resultstate:)
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
    batchNormalizationGradientState:(MPSCNNBatchNormalizationState*)batchNormalizationGradientState
      batchNormalizationSourceState:(MPSCNNBatchNormalizationState*)batchNormalizationSourceState
               inputMomentumVectors:(NSArray<MPSVector*>*)inputMomentumVectors
               inputVelocityVectors:(NSArray<MPSVector*>*)inputVelocityVectors
             maximumVelocityVectors:(NSArray<MPSVector*>*)maximumVelocityVectors
                        resultState:(MPSCNNNormalizationGammaAndBetaState*)resultState;
@end
