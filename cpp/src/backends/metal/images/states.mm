#include "backends/metal/images/states.h"

namespace traingraph::metal {
namespace {

constexpr NSUInteger kReads = 1 << 20;

}  // namespace

MPSStateBatch* held(MPSStateBatch* states, MPSKernel* kernel) {
  if (states == nil || [states count] == 0) {
    throw DeviceError("[metal] " + std::string([NSStringFromClass([kernel class]) UTF8String]) +
                      ": expected a state for its gradient but got none");
  }
  for (MPSState* state in states) {
    if ([state isTemporary]) [state setReadCount:kReads];
  }
  return states;
}

MPSStateBatch* held_or_empty(Encoding& encoding, MPSStateBatch* states, NSUInteger images) {
  if (states != nil && [states count] != 0) return held(states, nil);
  NSMutableArray<MPSState*>* empty = [NSMutableArray arrayWithCapacity:images];
  for (NSUInteger k = 0; k < images; ++k) {
    [empty addObject:[MPSNNGradientState temporaryStateWithCommandBuffer:command_buffer(encoding)]];
  }
  return held(empty, nil);
}

void end_reads(MPSStateBatch* states) {
  for (MPSState* state in states) {
    if ([state isTemporary] && [state readCount] != 0) [state setReadCount:0];
  }
}

void drop(MPSImageBatch* images) {
  for (MPSImage* image in images) [(MPSTemporaryImage*)image setReadCount:0];
}

}  // namespace traingraph::metal
