// Doubles of MPSState and the states of gradients: their resources and read counts.
#include "state.h"

#include "image.h"

namespace apple {
MPSState* make_state(Class state_class, id<MTLCommandBuffer> commands,
                     const std::vector<id<MTLBuffer>>& buffers) {
  MPSState* state = [[state_class alloc] initWithResources:[NSArray array]];
  for (id<MTLBuffer> buffer : buffers) state->inside_MPSState->buffers.emplace_back(buffer);
  state->_resourceCount = buffers.size();
  state->inside_MPSState->of_one_batch = true;
  if (commands != nil) {
    encodable(commands, "a temporary state");
    state->_isTemporary = YES;
    state->_readCount = 1;
    state->inside_MPSState->commands = number_of(commands);
  }
  return [state autorelease];
}
}  // namespace apple

@implementation MPSState
PROPERTIES(MPSState)
+ (instancetype)temporaryStateWithCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                                     bufferSize:(size_t)bufferSize {
  return (id)apple::make_state(self, commandBuffer,
                               {apple::make_buffer([commandBuffer device], bufferSize)});
}
+ (instancetype)temporaryStateWithCommandBuffer:(id<MTLCommandBuffer>)commandBuffer {
  return (id)apple::make_state(self, commandBuffer, {});
}
- (instancetype)initWithDevice:(id<MTLDevice>)device bufferSize:(size_t)bufferSize {
  return [self initWithResource:apple::make_buffer(device, bufferSize)];
}
- (instancetype)initWithResource:(id<MTLResource>)resource {
  return [self
      initWithResources:resource == nil ? [NSArray array] : [NSArray arrayWithObject:resource]];
}
- (instancetype)initWithResources:(NSArray<id<MTLResource>>*)resources {
  self = [super init];
  inside_MPSState = std::make_shared<MPSStateInside>();
  for (id<MTLResource> resource in resources)
    inside_MPSState->buffers.emplace_back((id<MTLBuffer>)resource);
  _resourceCount = [resources count];
  return self;
}
- (id<MTLResource>)resourceAtIndex:(NSUInteger)index allocateMemory:(BOOL)allocateMemory {
  (void)allocateMemory;
  apple::expect(index < _resourceCount, "a state has no resource of this index");
  return inside_MPSState->buffers[index].get();
}
- (id<MTLResource>)resource {
  return [self resourceAtIndex:0 allocateMemory:YES];
}
- (NSUInteger)bufferSizeAtIndex:(NSUInteger)index {
  return [(id<MTLBuffer>)[self resourceAtIndex:index allocateMemory:YES] length];
}
- (MPSStateResourceType)resourceTypeAtIndex:(NSUInteger)index {
  return index < _resourceCount ? MPSStateResourceTypeBuffer : MPSStateResourceTypeNone;
}
- (NSUInteger)resourceSize {
  NSUInteger sum = 0;
  for (const auto& buffer : inside_MPSState->buffers) sum += [buffer.get() length];
  return sum;
}
- (void)synchronizeOnCommandBuffer:(id<MTLCommandBuffer>)commandBuffer {
  apple::use_state(self, commandBuffer, "the synchronization of a state");
}
- (void)setReadCount:(NSUInteger)readCount {
  apple::expect(!_isTemporary || _readCount != 0 || (readCount == 0 && apple::lenient()),
                "the readCount of a temporary state is raised from 0, when its storage is gone");
  _readCount = readCount;
}
- (void)dealloc {
  apple::expect(!_isTemporary || _readCount == 0,
                "a temporary state is released with reads left in its readCount");
  RELEASES(MPSState)
  [super dealloc];
}
@end

@implementation MPSNNGradientState
MEMBERS(MPSNNGradientState)
@end

@implementation MPSNNBinaryGradientState
MEMBERS(MPSNNBinaryGradientState)
@end
