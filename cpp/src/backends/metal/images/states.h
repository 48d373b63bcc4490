// States that go from a forward kernel to its gradient kernel. Apple's pages do not say for each
// kernel whether it gives states at all, whether those of a batch are one object, nor whether
// encoding counts a read: nothing here depends on it. For .mm files only.
#pragma once

#import <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include "backends/metal/device/objects.h"

namespace traingraph::metal {

// The states of this kernel, with more reads than can be counted: end_reads() ends them. Raises
// DeviceError where it gave none.
MPSStateBatch* held(MPSStateBatch* states, MPSKernel* kernel);
// The same where the gradient kernel knows all it needs by itself: of a kernel that gives no states
// they are empty ones.
MPSStateBatch* held_or_empty(Encoding& encoding, MPSStateBatch* states, NSUInteger images);
inline MPSStateBatch* one_state(MPSState* state) {
  return state == nil ? nil : [NSArray arrayWithObject:state];
}
// Behind the last kernel that reads them.
void end_reads(MPSStateBatch* states);
// Of temporary images that nobody reads.
void drop(MPSImageBatch* images);

}  // namespace traingraph::metal
