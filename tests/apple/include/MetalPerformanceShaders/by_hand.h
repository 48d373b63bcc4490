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

// https://developer.apple.com/documentation/metalperformanceshaders/mpsnnlossgradient/encodebatch(commandbuffer:sourcegradients:sourceimages:labels:weights:sourcestates:destinationgradients:)
@interface MPSNNLossGradient (ByHand)
- (void)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                   sourceGradients:(MPSImageBatch*)sourceGradients
                      sourceImages:(MPSImageBatch*)sourceImages
                            labels:(MPSImageBatch*)labels
                           weights:(MPSImageBatch*)weights
                      sourceStates:(MPSStateBatch*)sourceStates
              destinationGradients:(MPSImageBatch*)destinationGradients;
@end
