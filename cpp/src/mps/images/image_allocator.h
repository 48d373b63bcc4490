#pragma once

#include <traingraph/mps/kernel.h>

namespace traingraph::mps {

// All images that the descriptor counts, as that many images or as one object. Raises
// InvalidArgument or ShapeError where an allocator of the program's own made something else.
ImageBatch allocated(CommandBuffer& buffer, const ImageDescriptor& descriptor,
                     ImageAllocator& allocator, const Kernel* kernel, bool one_by_one);

}  // namespace traingraph::mps
