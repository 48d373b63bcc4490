// Command buffers and encoders. Work runs in the order of commits (gpu_thread.h).
#include <Block.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "gpu_thread.h"
#include "metal.h"
#include "metal_library.h"

namespace {

constexpr NSUInteger kBuffers = 31;
constexpr NSUInteger kMostBytes = 4096;

std::mutex works_mutex;
std::map<std::string, std::int64_t>& works() {
  static auto* const by_class = new std::map<std::string, std::int64_t>;
  return *by_class;
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What is set at one index of a compute encoder: a buffer and an offset, or bytes.
struct Argument {
  apple::Kept<id<MTLBuffer>> buffer;
  NSUInteger offset = 0;
  std::shared_ptr<std::vector<std::max_align_t>> bytes;

  bool set() const { return buffer.get() != nil || bytes != nullptr; }
  void* address() const {
    if (bytes != nullptr) return bytes->data();
    return static_cast<unsigned char*>([buffer.get() contents]) + offset;
  }
};
using Arguments = std::array<Argument, kBuffers>;

void expect_range(id<MTLBuffer> buffer, NSUInteger offset, NSUInteger bytes) {
  apple::expect(buffer != nil, "a blit without its buffer");
  apple::expect(offset + bytes <= [buffer length], "a blit reaches beyond the end of an MTLBuffer");
}

}  // namespace

// What both encoders share.
@interface AppleEncoder : NSObject <MTLCommandEncoder> {
 @public
  AppleCommandBuffer* commands_;
  NSString* label_;
  BOOL ended_;
}
- (instancetype)initWithBuffer:(AppleCommandBuffer*)commands;
- (void)addWork:(apple::Work)work;
@end

@interface AppleComputeEncoder : AppleEncoder <MTLComputeCommandEncoder> {
  ApplePipeline* pipeline_;
  Arguments arguments_;
}
@end

@interface AppleBlitEncoder : AppleEncoder <MTLBlitCommandEncoder>
@end

@implementation AppleCommandBuffer
- (instancetype)initWithQueue:(id<MTLCommandQueue>)queue {
  static std::atomic<std::uint64_t> last{0};
  self = [super init];
  queue_ = [queue retain];
  number_ = ++last;
  return self;
}
- (void)dealloc {
  for (MTLCommandBufferHandler block : scheduled_) Block_release(block);
  for (MTLCommandBufferHandler block : completed_) Block_release(block);
  work_.clear();
  [error_ release];
  [label_ release];
  [queue_ release];
  [super dealloc];
}
- (id<MTLDevice>)device {
  return [queue_ device];
}
- (id<MTLCommandQueue>)commandQueue {
  return queue_;
}
- (BOOL)retainedReferences {
  return YES;
}
LABEL
- (CFTimeInterval)kernelStartTime {
  return start_;
}
- (CFTimeInterval)kernelEndTime {
  return end_;
}
- (CFTimeInterval)GPUStartTime {
  return start_;
}
- (CFTimeInterval)GPUEndTime {
  return end_;
}
- (MTLCommandBufferStatus)status {
  return status_;
}
- (NSError*)error {
  return error_;
}
- (void)enqueue {
  apple::expect(status_ == MTLCommandBufferStatusNotEnqueued,
                "a command buffer was enqueued twice");
  status_ = MTLCommandBufferStatusEnqueued;
}
- (void)commit {
  apple::expect(status_ < MTLCommandBufferStatusCommitted, "a command buffer was committed twice");
  apple::expect(open_encoder_ == nil,
                "a command buffer was committed before its encoder was ended");
  status_ = MTLCommandBufferStatusCommitted;
  apple::run_on_gpu(
      [commands = apple::Kept<AppleCommandBuffer*>(self)] { [commands.get() apple_run]; });
}
- (void)apple_run {
  NSAutoreleasePool* pool = [[NSAutoreleasePool alloc] init];
  for (MTLCommandBufferHandler block : scheduled_) block(self);
  const bool fails = apple::fails_now();
  start_ = now();
  if (!fails) {
    for (const apple::Work& work : work_) work();
  }
  end_ = now();
  work_.clear();
  for (const apple::Work& work : when_completed_) work();
  when_completed_.clear();
  if (fails) error_ = [[NSError errorWithDomain:@"of a test" code:1 userInfo:nil] retain];
  status_ = fails ? MTLCommandBufferStatusError : MTLCommandBufferStatusCompleted;
  for (MTLCommandBufferHandler block : completed_) block(self);
  [pool drain];
}
- (void)addScheduledHandler:(MTLCommandBufferHandler)block {
  apple::expect(status_ < MTLCommandBufferStatusCommitted, "a handler was added after the commit");
  scheduled_.push_back(Block_copy(block));
}
- (void)addCompletedHandler:(MTLCommandBufferHandler)block {
  apple::expect(status_ < MTLCommandBufferStatusCommitted, "a handler was added after the commit");
  completed_.push_back(Block_copy(block));
}
- (void)waitUntilScheduled {
  [self waitUntilCompleted];
}
- (void)waitUntilCompleted {
  apple::expect(status_ >= MTLCommandBufferStatusCommitted,
                "a command buffer that was not committed is waited for");
  apple::wait_for_gpu([self] { return status_ >= MTLCommandBufferStatusCompleted; });
}
- (id<MTLComputeCommandEncoder>)computeCommandEncoder {
  apple::encodable(self, "a compute encoder");
  return [[[AppleComputeEncoder alloc] initWithBuffer:self] autorelease];
}
- (id<MTLBlitCommandEncoder>)blitCommandEncoder {
  apple::encodable(self, "a blit encoder");
  return [[[AppleBlitEncoder alloc] initWithBuffer:self] autorelease];
}
@end

@implementation AppleEncoder
- (instancetype)initWithBuffer:(AppleCommandBuffer*)commands {
  self = [super init];
  commands_ = [commands retain];
  commands_->open_encoder_ = self;
  return self;
}
- (void)dealloc {
  apple::expect(ended_, "an encoder was released before endEncoding");
  [label_ release];
  [commands_ release];
  [super dealloc];
}
- (id<MTLDevice>)device {
  return [commands_ device];
}
LABEL
- (void)addWork:(apple::Work)work {
  apple::expect(!ended_, "an encoder was used after endEncoding");
  commands_->work_.push_back(std::move(work));
}
- (void)endEncoding {
  apple::expect(!ended_, "an encoder was ended twice");
  ended_ = YES;
  commands_->open_encoder_ = nil;
}
@end

@implementation AppleComputeEncoder
- (void)dealloc {
  [pipeline_ release];
  [super dealloc];
}
- (void)setComputePipelineState:(id<MTLComputePipelineState>)state {
  apple::expect(state != nil, "a compute encoder was given no pipeline");
  [pipeline_ release];
  pipeline_ = [(ApplePipeline*)state retain];
}
- (void)setBuffer:(id<MTLBuffer>)buffer offset:(NSUInteger)offset atIndex:(NSUInteger)index {
  apple::expect(index < kBuffers, "a compute encoder has 31 indices for buffers");
  apple::expect(buffer == nil || offset < [buffer length],
                "an offset is beyond the end of its buffer");
  apple::expect(offset % 4 == 0, "an offset of a buffer is no multiple of four");
  arguments_[index] = Argument{buffer, offset, nullptr};
}
- (void)setBufferOffset:(NSUInteger)offset atIndex:(NSUInteger)index {
  apple::expect(index < kBuffers && arguments_[index].buffer.get() != nil,
                "setBufferOffset: where no buffer is set");
  [self setBuffer:arguments_[index].buffer offset:offset atIndex:index];
}
- (void)setBytes:(const void*)bytes length:(NSUInteger)length atIndex:(NSUInteger)index {
  apple::expect(index < kBuffers, "a compute encoder has 31 indices for buffers");
  apple::expect(length != 0 && length <= kMostBytes, "setBytes: takes 1 to 4096 bytes");
  Argument argument;
  argument.bytes =
      std::make_shared<std::vector<std::max_align_t>>(length / sizeof(std::max_align_t) + 1);
  std::memcpy(argument.bytes->data(), bytes, length);
  arguments_[index] = std::move(argument);
}
- (void)dispatchThreads:(MTLSize)grid threadsPerThreadgroup:(MTLSize)group {
  if (pipeline_ == nil) apple::fail("a dispatch without a pipeline");
  const NSUInteger threads = group.width * group.height * group.depth;
  apple::expect(threads != 0, "a dispatch of threadgroups without threads");
  apple::expect(threads <= [pipeline_ maxTotalThreadsPerThreadgroup],
                "a threadgroup has more threads than its pipeline allows");
  apple::expect(grid.width * grid.height * grid.depth != 0, "a dispatch without threads");
  AppleFunction* function = pipeline_->function_;
  for (NSUInteger index : function->buffers_)
    if (!arguments_[index].set())
      apple::fail("the kernel " + function->name_ + " runs without its buffer " +
                  std::to_string(index));
  [self addWork:[arguments = arguments_, pipeline = apple::Kept<ApplePipeline*>(pipeline_), grid] {
    const AppleFunction* function = pipeline.get()->function_;
    std::array<void*, kBuffers> addresses{};
    for (NSUInteger index : function->buffers_) addresses[index] = arguments[index].address();
    for (unsigned z = 0; z < grid.depth; ++z)
      for (unsigned y = 0; y < grid.height; ++y)
        for (unsigned x = 0; x < grid.width; ++x) function->run_(addresses.data(), {x, y, z});
  }];
}
- (void)dispatchThreadgroups:(MTLSize)groups threadsPerThreadgroup:(MTLSize)group {
  [self dispatchThreads:MTLSizeMake(groups.width * group.width, groups.height * group.height,
                                    groups.depth * group.depth)
      threadsPerThreadgroup:group];
}
@end

@implementation AppleBlitEncoder
- (void)copyFromBuffer:(id<MTLBuffer>)source
          sourceOffset:(NSUInteger)sourceOffset
              toBuffer:(id<MTLBuffer>)destination
     destinationOffset:(NSUInteger)destinationOffset
                  size:(NSUInteger)size {
  expect_range(source, sourceOffset, size);
  expect_range(destination, destinationOffset, size);
  apple::expect(source != destination || sourceOffset + size <= destinationOffset ||
                    destinationOffset + size <= sourceOffset,
                "a blit copies a range of a buffer onto itself");
  using Buffer = apple::Kept<id<MTLBuffer>>;
  [self addWork:[from = Buffer(source), to = Buffer(destination), sourceOffset, destinationOffset,
                 size] {
    std::memcpy(static_cast<char*>([to.get() contents]) + destinationOffset,
                static_cast<const char*>([from.get() contents]) + sourceOffset, size);
  }];
}
- (void)fillBuffer:(id<MTLBuffer>)buffer range:(NSRange)range value:(uint8_t)value {
  expect_range(buffer, range.location, range.length);
  [self addWork:[to = apple::Kept<id<MTLBuffer>>(buffer), range, value] {
    std::memset(static_cast<char*>([to.get() contents]) + range.location, value, range.length);
  }];
}
- (void)synchronizeResource:(id<MTLResource>)resource {
  apple::expect([resource storageMode] == MTLStorageModeManaged,
                "synchronizeResource: is for managed storage");
}
@end

namespace apple {

AppleCommandBuffer* encodable(id<MTLCommandBuffer> buffer, const char* what) {
  if (![(id)buffer isKindOfClass:[AppleCommandBuffer class]])
    fail(std::string(what) + " is encoded to something that is no command buffer");
  auto* commands = (AppleCommandBuffer*)buffer;
  if (commands->status_ >= MTLCommandBufferStatusCommitted)
    fail(std::string(what) + " is encoded after the commit of its command buffer");
  if (commands->open_encoder_ != nil)
    fail(std::string(what) + " is encoded while another encoder is not ended");
  return commands;
}

void add_work(id<MTLCommandBuffer> buffer, const char* what, Work work) {
  encodable(buffer, what)->work_.push_back(std::move(work));
  const std::lock_guard lock(works_mutex);
  ++works()[what];
}

std::uint64_t number_of(id<MTLCommandBuffer> buffer) {
  return ((AppleCommandBuffer*)buffer)->number_;
}

}  // namespace apple

std::int64_t apple_work_of(const char* class_name) {
  const std::lock_guard lock(works_mutex);
  return works()[class_name];
}
