// Shaders: a library knows the kernels that its source names and that were compiled as C++.
#pragma once
#include <Metal/Metal.h>

#include <set>
#include <string>

#include "registry.h"

@interface AppleFunction : NSObject <MTLFunction> {
 @public
  id<MTLDevice> device_;
  std::string name_;
  shim::Run run_;
  std::set<NSUInteger> buffers_;  // indices of its arguments
}
@end

@interface ApplePipeline : NSObject <MTLComputePipelineState> {
 @public
  AppleFunction* function_;
}
@end

namespace apple {
id<MTLLibrary> make_library(id<MTLDevice> device, NSString* source, NSError** error);
id<MTLComputePipelineState> make_pipeline(id<MTLFunction> function);
}  // namespace apple
