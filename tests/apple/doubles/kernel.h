// How kernels over images are encoded: the base classes check the rules, and a subclass says what
// is computed for one image, with the values that its properties have at that moment.
#pragma once
#include <functional>

#include "image.h"
#include "state.h"

namespace apple {
using UnaryWork = std::function<void(const Picture& source, const Picture& destination)>;
using BinaryWork = std::function<void(const Picture& primary, const Picture& secondary,
                                      const Picture& destination)>;

inline NSInteger signed_of(NSUInteger value) { return static_cast<NSInteger>(value); }
}  // namespace apple

@interface MPSCNNKernel (AppleDouble)
// Fails where the kernel cannot work on images of these extents.
- (void)apple_checkSource:(apple::Extent)source result:(apple::Extent)result;
- (apple::UnaryWork)apple_workForState:(MPSState*)state;
// The state that the gradient kernel will want; temporary where there is a command buffer.
- (MPSState*)apple_stateForCommands:(id<MTLCommandBuffer>)commands
                             source:(MPSImage*)source
                        destination:(MPSImage*)destination;
@end

@interface MPSCNNBinaryKernel (AppleDouble)
- (void)apple_checkPrimary:(apple::Extent)primary
                 secondary:(apple::Extent)secondary
                    result:(apple::Extent)result;
- (apple::BinaryWork)apple_workForState:(MPSState*)state;
// Whether it writes its destination: gradients of weights alone leave it as it is.
- (BOOL)apple_writesDestination;
// What every form of encoding comes to; states may be nil.
- (void)apple_encode:(id<MTLCommandBuffer>)commandBuffer
             primary:(MPSImageBatch*)primaryImages
           secondary:(MPSImageBatch*)secondaryImages
              states:(MPSStateBatch*)states
         destination:(MPSImageBatch*)destinationImages;
@end

@interface MPSCNNGradientKernel (AppleDouble)
// The forward kernel's class, by whose states gradient states must have been made.
- (Class)apple_forwardClass;
- (BOOL)apple_needsState;
@end
