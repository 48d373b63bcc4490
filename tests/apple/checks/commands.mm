// Metal: buffers, command buffers, encoders and shaders, and the rules about their order.
#include <Metal/Metal.h>

#include <cstdlib>

#include "checks.h"
#include "runtime.h"

namespace {

NSString* const kSource =
    @"kernel void add_one(device const float* source [[buffer(0)]],\n"
     "device float* target [[buffer(1)]], constant float& scale [[buffer(2)]],\n"
     "uint index [[thread_position_in_grid]]) {}\n";

// What every check here starts with; its destructor gives all of it back.
struct Metal {
  Metal() {
    pool = [[NSAutoreleasePool alloc] init];
    device = [MTLCreateSystemDefaultDevice() autorelease];
    queue = [[device newCommandQueue] autorelease];
    commands = [queue commandBuffer];
    source = [[device newBufferWithLength:64 options:MTLResourceStorageModeShared] autorelease];
    target = [[device newBufferWithLength:64 options:MTLResourceStorageModeShared] autorelease];
    library = [[device newLibraryWithSource:kSource options:nil error:nullptr] autorelease];
    function = [[library newFunctionWithName:@"add_one"] autorelease];
    pipeline = [[device newComputePipelineStateWithFunction:function error:nullptr] autorelease];
    for (int index = 0; index < 16; ++index) values(source)[index] = static_cast<float>(index);
  }
  ~Metal() {
    [pool drain];
    REQUIRE(apple_live_objects() == 0);
  }
  static float* values(id<MTLBuffer> buffer) { return static_cast<float*>([buffer contents]); }

  // Encodes the kernel over 15 of the 16 values, from the second one on.
  id<MTLComputeCommandEncoder> encode() {
    id<MTLComputeCommandEncoder> encoder = [commands computeCommandEncoder];
    const float scale = 2;
    [encoder setComputePipelineState:pipeline];
    [encoder setBuffer:source offset:4 atIndex:0];
    [encoder setBuffer:target offset:0 atIndex:1];
    [encoder setBytes:&scale length:sizeof scale atIndex:2];
    [encoder dispatchThreads:MTLSizeMake(15, 1, 1) threadsPerThreadgroup:MTLSizeMake(8, 1, 1)];
    return encoder;
  }

  NSAutoreleasePool* pool;
  id<MTLDevice> device;
  id<MTLCommandQueue> queue;
  id<MTLCommandBuffer> commands;
  id<MTLBuffer> source, target;
  id<MTLLibrary> library;
  id<MTLFunction> function;
  id<MTLComputePipelineState> pipeline;
};

}  // namespace

CHECK(shaders_run_at_the_commit) {
  Metal metal;
  [metal.encode() endEncoding];
  REQUIRE(Metal::values(metal.target)[0] == 0);
  __block int handled = 0;
  [metal.commands addCompletedHandler:^(id<MTLCommandBuffer> buffer) {
    handled += [buffer status] == MTLCommandBufferStatusCompleted;
  }];
  [metal.commands commit];
  [metal.commands waitUntilCompleted];
  REQUIRE(handled == 1);
  for (int index = 0; index < 15; ++index)
    REQUIRE(Metal::values(metal.target)[index] == 2.f * static_cast<float>(index + 1) + 1);
  REQUIRE(Metal::values(metal.target)[15] == 0);
  REQUIRE([metal.commands GPUEndTime] >= [metal.commands GPUStartTime]);
  REQUIRE([metal.commands GPUStartTime] > 0);
}

CHECK(blits_copy_and_fill) {
  Metal metal;
  id<MTLBlitCommandEncoder> blit = [metal.commands blitCommandEncoder];
  [blit copyFromBuffer:metal.source
           sourceOffset:8
               toBuffer:metal.target
      destinationOffset:0
                   size:16];
  [blit fillBuffer:metal.target range:NSMakeRange(8, 4) value:0];
  [blit endEncoding];
  [metal.commands commit];
  const float* values = Metal::values(metal.target);
  REQUIRE(values[0] == 2 && values[1] == 3 && values[2] == 0 && values[3] == 5);
}

CHECK(devices_say_what_they_are) {
  Metal metal;
  NSArray* all = [MTLCopyAllDevices() autorelease];
  REQUIRE([all count] == 1 && [all firstObject] == metal.device);
  REQUIRE([metal.device hasUnifiedMemory] && [[metal.device name] length] != 0);
  REQUIRE([metal.device currentAllocatedSize] == 128);
  REQUIRE([metal.library newFunctionWithName:@"another"] == nil);
  NSError* error = nil;
  REQUIRE([metal.device newLibraryWithSource:@"" options:nil error:&error] == nil && error != nil);
}

CHECK(a_machine_may_have_no_device) {
  NSAutoreleasePool* pool = [[NSAutoreleasePool alloc] init];
  setenv("APPLE_DOUBLE_NO_DEVICE", "default", 1);
  REQUIRE(MTLCreateSystemDefaultDevice() == nil);
  REQUIRE([[MTLCopyAllDevices() autorelease] count] == 1);
  setenv("APPLE_DOUBLE_NO_DEVICE", "1", 1);
  REQUIRE(MTLCreateSystemDefaultDevice() == nil);
  REQUIRE([[MTLCopyAllDevices() autorelease] count] == 0);
  [pool drain];
}

// --- broken rules --------------------------------------------------------------------------------

CHECK(broken_encoder_not_ended) {
  Metal metal;
  metal.encode();
  [metal.commands commit];
}

CHECK(broken_two_encoders) {
  Metal metal;
  metal.encode();
  [metal.commands blitCommandEncoder];
}

CHECK(broken_encoding_after_commit) {
  Metal metal;
  [metal.commands commit];
  [metal.commands computeCommandEncoder];
}

CHECK(broken_use_after_end) {
  Metal metal;
  id<MTLComputeCommandEncoder> encoder = metal.encode();
  [encoder endEncoding];
  [encoder dispatchThreads:MTLSizeMake(1, 1, 1) threadsPerThreadgroup:MTLSizeMake(1, 1, 1)];
}

CHECK(broken_commit_twice) {
  Metal metal;
  [metal.commands commit];
  [metal.commands commit];
}

CHECK(broken_wait_before_commit) {
  Metal metal;
  [metal.commands waitUntilCompleted];
}

CHECK(broken_buffer_not_set) {
  Metal metal;
  id<MTLComputeCommandEncoder> encoder = [metal.commands computeCommandEncoder];
  [encoder setComputePipelineState:metal.pipeline];
  [encoder setBuffer:metal.source offset:0 atIndex:0];
  [encoder dispatchThreads:MTLSizeMake(1, 1, 1) threadsPerThreadgroup:MTLSizeMake(1, 1, 1)];
}

CHECK(broken_too_many_threads) {
  Metal metal;
  id<MTLComputeCommandEncoder> encoder = metal.encode();
  [encoder dispatchThreads:MTLSizeMake(1, 1, 1) threadsPerThreadgroup:MTLSizeMake(2048, 1, 1)];
}

CHECK(broken_too_many_bytes) {
  Metal metal;
  char bytes[5000] = {};
  [metal.encode() setBytes:bytes length:sizeof bytes atIndex:2];
}

CHECK(broken_write_beyond_a_buffer) {
  Metal metal;
  Metal::values(metal.target)[16] = 1;
}
