// Devices, buffers and queues of Metal: one device with unified memory, whose buffers are plain
// bytes.
#include <Block.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "metal.h"
#include "metal_library.h"

namespace {
// Guards against writes beyond the end of a buffer, which a GPU does not notice.
constexpr NSUInteger kGuardBytes = 64;
constexpr unsigned char kGuard = 0xA5;
}  // namespace

@interface AppleDevice : NSObject <MTLDevice> {
 @public
  NSUInteger allocated_;
}
@end

@interface AppleBuffer : NSObject <MTLBuffer> {
 @public
  AppleDevice* device_;
  unsigned char* bytes_;
  NSUInteger length_;
  MTLResourceOptions options_;
  NSString* label_;
  void (^deallocator_)(void*, NSUInteger);
  BOOL foreign_;
}
@end

@interface AppleQueue : NSObject <MTLCommandQueue> {
 @public
  AppleDevice* device_;
  NSString* label_;
}
@end

@implementation AppleBuffer
- (void)dealloc {
  if (foreign_) {
    if (deallocator_ != nil) {
      deallocator_(bytes_, length_);
      Block_release(deallocator_);
    }
  } else {
    for (NSUInteger index = 0; index < kGuardBytes; ++index)
      apple::expect(bytes_[length_ + index] == kGuard,
                    "something wrote beyond the end of an MTLBuffer");
    std::free(bytes_);
    device_->allocated_ -= length_;
  }
  [label_ release];
  [device_ release];
  [super dealloc];
}
- (NSUInteger)length {
  return length_;
}
- (void*)contents {
  return (options_ & MTLResourceStorageModePrivate) != 0 ? nullptr : bytes_;
}
- (void)didModifyRange:(NSRange)range {
  apple::expect((options_ & MTLResourceStorageModeManaged) != 0,
                "didModifyRange: is for buffers of managed storage");
  apple::expect(range.location + range.length <= length_,
                "a range is beyond the end of an MTLBuffer");
}
- (MTLStorageMode)storageMode {
  return static_cast<MTLStorageMode>((options_ >> 4) & 15);
}
- (NSUInteger)allocatedSize {
  return length_;
}
- (id<MTLDevice>)device {
  return device_;
}
LABEL
@end

@implementation AppleQueue
- (void)dealloc {
  [label_ release];
  [device_ release];
  [super dealloc];
}
- (id<MTLDevice>)device {
  return device_;
}
LABEL
- (id<MTLCommandBuffer>)commandBuffer {
  return [[[AppleCommandBuffer alloc] initWithQueue:self] autorelease];
}
- (id<MTLCommandBuffer>)commandBufferWithUnretainedReferences {
  return [self commandBuffer];
}
@end

namespace {
AppleDevice* the_device = nil;  // not retained
}

@implementation AppleDevice
- (void)dealloc {
  the_device = nil;
  [super dealloc];
}
- (NSString*)name {
  return @"Apple double";
}
- (uint64_t)registryID {
  return 1;
}
- (BOOL)isLowPower {
  return NO;
}
- (BOOL)isHeadless {
  return NO;
}
- (BOOL)isRemovable {
  return NO;
}
- (BOOL)hasUnifiedMemory {
  return YES;
}
- (uint64_t)recommendedMaxWorkingSetSize {
  return uint64_t{8} << 30;
}
- (NSUInteger)currentAllocatedSize {
  return allocated_;
}
- (NSUInteger)maxBufferLength {
  return NSUInteger{4} << 30;
}
- (NSUInteger)maxThreadgroupMemoryLength {
  return 32 << 10;
}
- (MTLSize)maxThreadsPerThreadgroup {
  return MTLSizeMake(1024, 1024, 1024);
}
- (BOOL)supportsFamily:(MTLGPUFamily)gpuFamily {
  return gpuFamily == MTLGPUFamilyApple7 || gpuFamily == MTLGPUFamilyMetal3;
}
- (id<MTLCommandQueue>)newCommandQueue {
  AppleQueue* queue = [[AppleQueue alloc] init];
  queue->device_ = [self retain];
  return queue;
}
- (id<MTLCommandQueue>)newCommandQueueWithMaxCommandBufferCount:(NSUInteger)maxCommandBufferCount {
  apple::expect(maxCommandBufferCount != 0, "a queue of no command buffers");
  return [self newCommandQueue];
}
- (id<MTLBuffer>)newBufferWithLength:(NSUInteger)length options:(MTLResourceOptions)options {
  apple::expect(length != 0, "an MTLBuffer of no bytes");
  if (length > [self maxBufferLength]) return nil;
  AppleBuffer* buffer = [[AppleBuffer alloc] init];
  buffer->bytes_ = static_cast<unsigned char*>(
      std::aligned_alloc(256, (length + kGuardBytes + 255) / 256 * 256));
  std::memset(buffer->bytes_, 0, length);
  std::memset(buffer->bytes_ + length, kGuard, kGuardBytes);
  buffer->length_ = length;
  buffer->options_ = options;
  buffer->device_ = [self retain];
  allocated_ += length;
  return buffer;
}
- (id<MTLBuffer>)newBufferWithBytes:(const void*)pointer
                             length:(NSUInteger)length
                            options:(MTLResourceOptions)options {
  AppleBuffer* buffer = (AppleBuffer*)[self newBufferWithLength:length options:options];
  std::memcpy(buffer->bytes_, pointer, length);
  return buffer;
}
- (id<MTLBuffer>)newBufferWithBytesNoCopy:(void*)pointer
                                   length:(NSUInteger)length
                                  options:(MTLResourceOptions)options
                              deallocator:(void (^)(void*, NSUInteger))deallocator {
  const auto page = static_cast<NSUInteger>(getpagesize());
  apple::expect(reinterpret_cast<NSUInteger>(pointer) % page == 0 && length % page == 0,
                "newBufferWithBytesNoCopy: takes whole pages");
  AppleBuffer* buffer = [[AppleBuffer alloc] init];
  buffer->bytes_ = static_cast<unsigned char*>(pointer);
  buffer->length_ = length;
  buffer->options_ = options;
  buffer->device_ = [self retain];
  buffer->foreign_ = YES;
  if (deallocator != nil) buffer->deallocator_ = Block_copy(deallocator);
  return buffer;
}
- (id<MTLLibrary>)newLibraryWithSource:(NSString*)source
                               options:(MTLCompileOptions*)options
                                 error:(NSError**)error {
  (void)options;
  return apple::make_library(self, source, error);
}
- (id<MTLComputePipelineState>)newComputePipelineStateWithFunction:(id<MTLFunction>)computeFunction
                                                             error:(NSError**)error {
  if (error != nullptr) *error = nil;
  return apple::make_pipeline(computeFunction);
}
@end

@implementation MTLTextureDescriptor
- (instancetype)init {
  apple::fail("MTLTextureDescriptor has no behaviour on this double");
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return [self retain];
}
@end

@implementation MTLHeapDescriptor
- (instancetype)init {
  apple::fail("MTLHeapDescriptor has no behaviour on this double");
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return [self retain];
}
@end

// How a machine lacks a GPU: "default" where none is the system's own, else there is none at all.
static std::string what_lacks(void) {
  const char* text = std::getenv("APPLE_DOUBLE_NO_DEVICE");
  return text == nullptr ? "" : text;
}

static id<MTLDevice> new_device(void) {
  if (the_device != nil) return [the_device retain];
  the_device = [[AppleDevice alloc] init];
  return the_device;
}

id<MTLDevice> MTLCreateSystemDefaultDevice(void) {
  return what_lacks().empty() ? new_device() : nil;
}

NSArray<id<MTLDevice>>* MTLCopyAllDevices(void) {
  const std::string lacks = what_lacks();
  id<MTLDevice> device = lacks.empty() || lacks == "default" ? new_device() : nil;
  NSArray* all = [[NSArray alloc] initWithObjects:&device count:device == nil ? 0 : 1];
  [device release];
  return all;
}

namespace apple {
id<MTLBuffer> make_buffer(id<MTLDevice> device, NSUInteger bytes) {
  return [[device newBufferWithLength:bytes options:MTLResourceStorageModeShared] autorelease];
}
}  // namespace apple
