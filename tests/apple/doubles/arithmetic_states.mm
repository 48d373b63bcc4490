// States of arithmetic. Apple's pages say both that a clamp has no gradient and that a state has a
// mask for it: here nothing flows where the forward kernel has clamped, as in traingraph.mps.
// https://developer.apple.com/documentation/metalperformanceshaders/mpscnnarithmeticgradientstate
#include "arithmetic.h"

// The rest of the class stands in arithmetic.mm.
#pragma clang diagnostic ignored "-Wobjc-protocol-method-implementation"

namespace apple {

std::shared_ptr<std::vector<bool>> clamp_mask(MPSState* state) {
  if (state == nil) return nullptr;
  return ((MPSCNNArithmeticGradientState*)state)->inside_MPSCNNArithmeticGradientState->passed;
}

}  // namespace apple

@implementation MPSCNNArithmeticGradientState
MEMBERS(MPSCNNArithmeticGradientState)
@end

@implementation MPSCNNArithmetic (States)
- (MPSState*)apple_stateForCommands:(id<MTLCommandBuffer>)commands
                        destination:(MPSImage*)destination {
  auto* state = (MPSCNNArithmeticGradientState*)apple::make_state(
      [MPSCNNArithmeticGradientState class], commands, {});
  state->inside_MPSCNNArithmeticGradientState =
      std::make_shared<MPSCNNArithmeticGradientStateInside>();
  state->inside_MPSState->maker = [self class];
  state->inside_MPSState->result = {
      [destination width], [destination height], [destination featureChannels]};
  return state;
}
- (MPSStateBatch*)apple_statesForCommands:(id<MTLCommandBuffer>)commands
                             destinations:(MPSImageBatch*)destinations {
  NSMutableArray* states = [NSMutableArray array];
  for (MPSImage* destination in destinations)
    [states addObject:[self apple_stateForCommands:commands destination:destination]];
  return states;
}
- (MPSState*)resultStateForPrimaryImage:(MPSImage*)primaryImage
                         secondaryImage:(MPSImage*)secondaryImage
                           sourceStates:(NSArray<MPSState*>*)sourceStates
                       destinationImage:(MPSImage*)destinationImage {
  (void)primaryImage, (void)secondaryImage, (void)sourceStates;
  return [self apple_stateForCommands:nil destination:destinationImage];
}
- (MPSStateBatch*)resultStateBatchForPrimaryImage:(MPSImageBatch*)primaryImage
                                   secondaryImage:(MPSImageBatch*)secondaryImage
                                     sourceStates:(NSArray<MPSStateBatch*>*)sourceStates
                                 destinationImage:(MPSImageBatch*)destinationImage {
  (void)primaryImage, (void)secondaryImage, (void)sourceStates;
  return [self apple_statesForCommands:nil destinations:destinationImage];
}
- (MPSState*)temporaryResultStateForCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                                     primaryImage:(MPSImage*)primaryImage
                                   secondaryImage:(MPSImage*)secondaryImage
                                     sourceStates:(NSArray<MPSState*>*)sourceStates
                                 destinationImage:(MPSImage*)destinationImage {
  (void)primaryImage, (void)secondaryImage, (void)sourceStates;
  return [self apple_stateForCommands:commandBuffer destination:destinationImage];
}
- (MPSStateBatch*)temporaryResultStateBatchForCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                                               primaryImage:(MPSImageBatch*)primaryImage
                                             secondaryImage:(MPSImageBatch*)secondaryImage
                                               sourceStates:(NSArray<MPSStateBatch*>*)sourceStates
                                           destinationImage:(MPSImageBatch*)destinationImage {
  (void)primaryImage, (void)secondaryImage, (void)sourceStates;
  return [self apple_statesForCommands:commandBuffer destinations:destinationImage];
}
- (void)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                     primaryImages:(MPSImageBatch*)primaryImages
                   secondaryImages:(MPSImageBatch*)secondaryImages
                 destinationStates:(MPSCNNArithmeticGradientStateBatch*)destinationStates
                 destinationImages:(MPSImageBatch*)destinationImages {
  for (MPSState* state in destinationStates)
    apple::use_state(state, commandBuffer, "MPSCNNArithmetic");
  [self apple_encode:commandBuffer
             primary:primaryImages
           secondary:secondaryImages
              states:destinationStates
         destination:destinationImages];
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                 primaryImage:(MPSImage*)primaryImage
               secondaryImage:(MPSImage*)secondaryImage
             destinationState:(MPSCNNArithmeticGradientState*)destinationState
             destinationImage:(MPSImage*)destinationImage {
  [self encodeBatchToCommandBuffer:commandBuffer
                     primaryImages:[NSArray arrayWithObject:primaryImage]
                   secondaryImages:[NSArray arrayWithObject:secondaryImage]
                 destinationStates:[NSArray arrayWithObject:destinationState]
                 destinationImages:[NSArray arrayWithObject:destinationImage]];
}
@end
