// The doubles of Metal's objects, for those of Metal Performance Shaders.
#pragma once
#include <Metal/Metal.h>

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "kept.h"
#include "runtime.h"

@class AppleCommandBuffer;

// Of a class that keeps its label in label_.
#define LABEL                          \
  -(NSString*)label {                  \
    return label_;                     \
  }                                    \
  -(void)setLabel : (NSString*)label { \
    NSString* old = label_;            \
    label_ = [label copy];             \
    [old release];                     \
  }

namespace apple {

using Work = std::function<void()>;

// The double behind a command buffer that may still be encoded to; fails if it is none, was
// committed, or has an encoder that was not ended.
AppleCommandBuffer* encodable(id<MTLCommandBuffer> buffer, const char* what);

// Adds work that runs when the buffer is committed, after all that was added before.
void add_work(id<MTLCommandBuffer> buffer, const char* what, Work work);

// The number of the buffer, which no other one has.
std::uint64_t number_of(id<MTLCommandBuffer> buffer);

// A shared buffer of zeros, autoreleased.
id<MTLBuffer> make_buffer(id<MTLDevice> device, NSUInteger bytes);

inline float* floats(id<MTLBuffer> buffer) { return static_cast<float*>([buffer contents]); }

}  // namespace apple

@interface AppleCommandBuffer : NSObject <MTLCommandBuffer> {
 @public
  id<MTLCommandQueue> queue_;
  id<MTLCommandEncoder> open_encoder_;  // not retained
  std::vector<apple::Work> work_;
  std::vector<MTLCommandBufferHandler> scheduled_, completed_;
  // Asked at commit: what temporary storage still waits for.
  std::vector<apple::Work> when_completed_;
  std::uint64_t number_;
  std::atomic<MTLCommandBufferStatus> status_;
  NSError* error_;
  double start_, end_;
  NSString* label_;
}
- (instancetype)initWithQueue:(id<MTLCommandQueue>)queue;
// Its work, and what is told when that is done.
- (void)apple_run;
@end
