// Doubles of MPSKernel and the classes of image kernels, which check the rules of each encoding.
#include "kernel.h"

#include <algorithm>

namespace {

using apple::Extent;
using apple::Picture;
using apple::Pictures;

Extent extent_of(const Picture& picture) {
  return {picture.width(), picture.height(), picture.channels};
}
Extent extent_of(MPSImage* image) {
  return {[image width], [image height], [image featureChannels]};
}

const char* name_of(id kernel) { return class_getName(object_getClass(kernel)); }

void check_clip(const MTLRegion& clip, const Pictures& pictures, const char* what) {
  for (const Picture& picture : pictures)
    if (clip.origin.x != 0 || clip.origin.y != 0 || clip.origin.z != 0 ||
        clip.size.width < picture.width() || clip.size.height < picture.height())
      apple::broken(what, "a clipRect that cuts its result has no behaviour on this double");
}

void check_offset(const MPSOffset& offset, const char* what) {
  if (offset.z != 0)
    apple::broken(what, "an offset that leaves out images has no behaviour on this double");
}

void check_count(NSUInteger count, NSUInteger expected, const char* what, const char* of) {
  if (count != expected)
    apple::broken(
        what, std::to_string(count) + " " + of + " for " + std::to_string(expected) + " images");
}

// Whether kernels of this class give states. Headers declare so of these alone; of all others the
// common one says that they give nil.
bool gives_states(Class forward) {
  static const char* const declared[] = {"MPSCNNConvolution",        "MPSCNNConvolutionTranspose",
                                         "MPSCNNBatchNormalization", "MPSCNNInstanceNormalization",
                                         "MPSCNNGroupNormalization", "MPSCNNDropout",
                                         "MPSCNNArithmetic"};
  return apple::lenient() || std::ranges::any_of(declared, [forward](const char* name) {
           return [forward isSubclassOfClass:(Class)objc_lookUpClass(name)] != NO;
         });
}

void check_maker(MPSState* state, Class forward, const char* what) {
  const Class maker = state->inside_MPSState->maker;
  if (maker == Nil || ![maker isSubclassOfClass:forward])
    apple::broken(what, "its state was not made by the forward kernel " +
                            std::string(class_getName(forward)));
}

MPSState* state_at(MPSStateBatch* states, NSUInteger index) {
  return states == nil ? nil : [states objectAtIndex:index];
}

}  // namespace

@implementation MPSKernel
MEMBERS(MPSKernel)
- (instancetype)initWithDevice:(id<MTLDevice>)device {
  self = [super init];
  apple::expect(device != nil, "a kernel without a device");
  _device = [device retain];
  return self;
}
@end

@implementation MPSCNNKernel
MEMBERS(MPSCNNKernel)
- (instancetype)initWithDevice:(id<MTLDevice>)device {
  self = [super initWithDevice:device];
  _clipRect = MPSRectNoClip;
  _sourceFeatureChannelMaxCount = NSUIntegerMax;
  _kernelWidth = _kernelHeight = 1;
  _strideInPixelsX = _strideInPixelsY = 1;
  _dilationRateX = _dilationRateY = 1;
  return self;
}
- (BOOL)isResultStateReusedAcrossBatch {
  return NO;
}
- (BOOL)appendBatchBarrier {
  return NO;
}
- (void)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                      sourceImages:(MPSImageBatch*)sourceImages
                 destinationStates:(MPSStateBatch*)destinationStates
                 destinationImages:(MPSImageBatch*)destinationImages {
  const char* what = name_of(self);
  const Pictures source = apple::read(sourceImages, commandBuffer, what,
                                      _sourceFeatureChannelOffset, _sourceFeatureChannelMaxCount);
  const Pictures result = apple::write(destinationImages, commandBuffer, what, {sourceImages},
                                       _destinationFeatureChannelOffset);
  check_clip(_clipRect, result, what);
  check_offset(_offset, what);
  check_count(result.size(), source.size(), what, "destination images");
  if (destinationStates != nil)
    check_count([destinationStates count], source.size(), what, "destination states");
  for (NSUInteger index = 0; index < source.size(); ++index) {
    MPSState* state = state_at(destinationStates, index);
    if (state != nil) apple::use_state(state, commandBuffer, what);
    [self apple_checkSource:extent_of(source[index]) result:extent_of(result[index])];
    apple::add_work(commandBuffer, what,
                    [work = [self apple_workForState:state], from = source[index],
                     to = result[index], kept = apple::Kept<MPSState*>(state)] { work(from, to); });
  }
}
- (void)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                      sourceImages:(MPSImageBatch*)sourceImages
                 destinationImages:(MPSImageBatch*)destinationImages {
  // Not by way of self: a subclass may forbid the form with states.
  static const SEL form =
      @selector(encodeBatchToCommandBuffer:sourceImages:destinationStates:destinationImages:);
  using Encode = void (*)(id, SEL, id, id, id, id);
  auto* encode = reinterpret_cast<void*>(
      method_getImplementation(class_getInstanceMethod([MPSCNNKernel class], form)));
  reinterpret_cast<Encode>(encode)(self, form, commandBuffer, sourceImages, nil, destinationImages);
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                  sourceImage:(MPSImage*)sourceImage
             destinationImage:(MPSImage*)destinationImage {
  [self encodeBatchToCommandBuffer:commandBuffer
                      sourceImages:[NSArray arrayWithObject:sourceImage]
                 destinationImages:[NSArray arrayWithObject:destinationImage]];
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                  sourceImage:(MPSImage*)sourceImage
             destinationState:(MPSState*)destinationState
             destinationImage:(MPSImage*)destinationImage {
  [self encodeBatchToCommandBuffer:commandBuffer
                      sourceImages:[NSArray arrayWithObject:sourceImage]
                 destinationStates:[NSArray arrayWithObject:destinationState]
                 destinationImages:[NSArray arrayWithObject:destinationImage]];
}

// --- states ---

- (MPSState*)apple_madeStateForCommands:(id<MTLCommandBuffer>)commands
                                 source:(MPSImage*)source
                            destination:(MPSImage*)destination {
  apple::expect(source != nil && destination != nil, "a state is made for a source and a result");
  if (!gives_states([self class])) return nil;
  MPSState* state = [self apple_stateForCommands:commands source:source destination:destination];
  MPSStateInside& inside = *state->inside_MPSState;
  inside.maker = [self class];
  inside.source = extent_of(source);
  inside.result = extent_of(destination);
  return state;
}
- (MPSStateBatch*)apple_statesForCommands:(id<MTLCommandBuffer>)commands
                                  sources:(MPSImageBatch*)sources
                             destinations:(MPSImageBatch*)destinations {
  if (!gives_states([self class])) return nil;
  NSMutableArray* states = [NSMutableArray array];
  for (NSUInteger index = 0; index < [sources count]; ++index)
    if (index != 0 && [self isResultStateReusedAcrossBatch])
      [states addObject:[states firstObject]];
    else
      [states addObject:[self apple_madeStateForCommands:commands
                                                  source:[sources objectAtIndex:index]
                                             destination:[destinations objectAtIndex:index]]];
  return states;
}
- (MPSState*)resultStateForSourceImage:(MPSImage*)sourceImage
                          sourceStates:(NSArray<MPSState*>*)sourceStates
                      destinationImage:(MPSImage*)destinationImage {
  (void)sourceStates;
  return [self apple_madeStateForCommands:nil source:sourceImage destination:destinationImage];
}
- (MPSState*)temporaryResultStateForCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                                      sourceImage:(MPSImage*)sourceImage
                                     sourceStates:(NSArray<MPSState*>*)sourceStates
                                 destinationImage:(MPSImage*)destinationImage {
  (void)sourceStates;
  return [self apple_madeStateForCommands:commandBuffer
                                   source:sourceImage
                              destination:destinationImage];
}
- (MPSStateBatch*)resultStateBatchForSourceImage:(MPSImageBatch*)sourceImage
                                    sourceStates:(NSArray<MPSStateBatch*>*)sourceStates
                                destinationImage:(MPSImageBatch*)destinationImage {
  (void)sourceStates;
  return [self apple_statesForCommands:nil sources:sourceImage destinations:destinationImage];
}
- (MPSStateBatch*)temporaryResultStateBatchForCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                                                sourceImage:(MPSImageBatch*)sourceImage
                                               sourceStates:(NSArray<MPSStateBatch*>*)sourceStates
                                           destinationImage:(MPSImageBatch*)destinationImage {
  (void)sourceStates;
  return [self apple_statesForCommands:commandBuffer
                               sources:sourceImage
                          destinations:destinationImage];
}
@end

@implementation MPSCNNKernel (AppleDouble)
// Most kernels work texel by texel; a result may have more channels, beside those written.
- (void)apple_checkSource:(Extent)source result:(Extent)result {
  if (source.width != result.width || source.height != result.height ||
      source.channels > result.channels)
    apple::broken(name_of(self), "source and result differ in size");
}
- (apple::UnaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  apple::broken(name_of(self), "has no behaviour on this double");
}
- (MPSState*)apple_stateForCommands:(id<MTLCommandBuffer>)commands
                             source:(MPSImage*)source
                        destination:(MPSImage*)destination {
  (void)source, (void)destination;
  return apple::make_state([MPSNNGradientState class], commands, {});
}
@end

@implementation MPSCNNBinaryKernel
MEMBERS(MPSCNNBinaryKernel)
- (instancetype)initWithDevice:(id<MTLDevice>)device {
  self = [super initWithDevice:device];
  _clipRect = MPSRectNoClip;
  _primarySourceFeatureChannelMaxCount = _secondarySourceFeatureChannelMaxCount = NSUIntegerMax;
  _primaryStrideInPixelsX = _primaryStrideInPixelsY = 1;
  _secondaryStrideInPixelsX = _secondaryStrideInPixelsY = 1;
  _primaryKernelWidth = _primaryKernelHeight = _secondaryKernelWidth = _secondaryKernelHeight = 1;
  _primaryDilationRateX = _primaryDilationRateY = 1;
  _secondaryDilationRateX = _secondaryDilationRateY = 1;
  return self;
}
- (BOOL)isResultStateReusedAcrossBatch {
  return NO;
}
- (BOOL)appendBatchBarrier {
  return NO;
}
- (void)apple_encode:(id<MTLCommandBuffer>)commandBuffer
             primary:(MPSImageBatch*)primaryImages
           secondary:(MPSImageBatch*)secondaryImages
              states:(MPSStateBatch*)states
         destination:(MPSImageBatch*)destinationImages {
  const char* what = name_of(self);
  const Pictures primary =
      apple::read(primaryImages, commandBuffer, what, _primarySourceFeatureChannelOffset,
                  _primarySourceFeatureChannelMaxCount);
  const Pictures secondary =
      apple::read(secondaryImages, commandBuffer, what, _secondarySourceFeatureChannelOffset,
                  _secondarySourceFeatureChannelMaxCount);
  if (destinationImages == nil) apple::broken(what, "a destination image is missing");
  const Pictures result =
      ![self apple_writesDestination]
          ? secondary
          : apple::write(destinationImages, commandBuffer, what, {primaryImages, secondaryImages},
                         _destinationFeatureChannelOffset);
  check_clip(_clipRect, result, what);
  check_offset(_secondaryOffset, what);
  check_count(secondary.size(), primary.size(), what, "secondary images");
  check_count(result.size(), primary.size(), what, "destination images");
  if (states != nil) check_count([states count], primary.size(), what, "states");
  for (NSUInteger index = 0; index < primary.size(); ++index) {
    MPSState* state = state_at(states, index);
    [self apple_checkPrimary:extent_of(primary[index])
                   secondary:extent_of(secondary[index])
                      result:extent_of(result[index])];
    apple::add_work(
        commandBuffer, what,
        [work = [self apple_workForState:state], first = primary[index], second = secondary[index],
         to = result[index], kept = apple::Kept<MPSState*>(state)] { work(first, second, to); });
  }
}
- (void)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                     primaryImages:(MPSImageBatch*)primaryImages
                   secondaryImages:(MPSImageBatch*)secondaryImages
                 destinationImages:(MPSImageBatch*)destinationImages {
  [self apple_encode:commandBuffer
             primary:primaryImages
           secondary:secondaryImages
              states:nil
         destination:destinationImages];
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                 primaryImage:(MPSImage*)primaryImage
               secondaryImage:(MPSImage*)secondaryImage
             destinationImage:(MPSImage*)destinationImage {
  [self encodeBatchToCommandBuffer:commandBuffer
                     primaryImages:[NSArray arrayWithObject:primaryImage]
                   secondaryImages:[NSArray arrayWithObject:secondaryImage]
                 destinationImages:[NSArray arrayWithObject:destinationImage]];
}
@end

@implementation MPSCNNBinaryKernel (AppleDouble)
- (void)apple_checkPrimary:(Extent)primary secondary:(Extent)secondary result:(Extent)result {
  if (!(primary == result) || !(secondary == result))
    apple::broken(name_of(self), "sources and result differ in size");
}
- (BOOL)apple_writesDestination {
  return YES;
}
- (apple::BinaryWork)apple_workForState:(MPSState*)state {
  (void)state;
  apple::broken(name_of(self), "has no behaviour on this double");
}
@end

@implementation MPSCNNGradientKernel
MEMBERS(MPSCNNGradientKernel)
- (void)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                   sourceGradients:(MPSImageBatch*)sourceGradients
                      sourceImages:(MPSImageBatch*)sourceImages
                    gradientStates:(MPSStateBatch*)gradientStates
              destinationGradients:(MPSImageBatch*)destinationGradients {
  const char* what = name_of(self);
  if (gradientStates == nil || [gradientStates count] == 0)
    apple::broken(what, "a gradient state is missing");
  // What a kernel that gives no states takes is an empty one of the caller's.
  for (MPSState* state in gradientStates)
    if (gives_states([self apple_forwardClass]) || state->inside_MPSState->maker != Nil)
      check_maker(state, [self apple_forwardClass], what);
  for (NSUInteger index = 0; index < [gradientStates count]; ++index) {
    const MPSStateInside& inside = *[gradientStates objectAtIndex:index]->inside_MPSState;
    if (index < [sourceGradients count] && inside.maker != Nil &&
        !(extent_of([sourceGradients objectAtIndex:index]) == inside.result))
      apple::broken(what, "the gradient has not the size of the forward result of its state");
  }
  apple::read_states(gradientStates, commandBuffer, what);
  [self apple_encode:commandBuffer
             primary:sourceGradients
           secondary:sourceImages
              states:gradientStates
         destination:destinationGradients];
}
- (void)encodeToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
               sourceGradient:(MPSImage*)sourceGradient
                  sourceImage:(MPSImage*)sourceImage
                gradientState:(MPSState*)gradientState
          destinationGradient:(MPSImage*)destinationGradient {
  [self encodeBatchToCommandBuffer:commandBuffer
                   sourceGradients:[NSArray arrayWithObject:sourceGradient]
                      sourceImages:[NSArray arrayWithObject:sourceImage]
                    gradientStates:[NSArray arrayWithObject:gradientState]
              destinationGradients:[NSArray arrayWithObject:destinationGradient]];
}
- (void)encodeBatchToCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                     primaryImages:(MPSImageBatch*)primaryImages
                   secondaryImages:(MPSImageBatch*)secondaryImages
                 destinationImages:(MPSImageBatch*)destinationImages {
  if ([self apple_needsState]) apple::broken(name_of(self), "works with a gradient state only");
  [self apple_encode:commandBuffer
             primary:primaryImages
           secondary:secondaryImages
              states:nil
         destination:destinationImages];
}
@end

@implementation MPSCNNGradientKernel (AppleDouble)
- (Class)apple_forwardClass {
  // MPSCNNPoolingMaxGradient belongs to MPSCNNPoolingMax.
  const std::string name = name_of(self);
  return (Class)objc_lookUpClass(
      name.substr(0, name.size() - std::string("Gradient").size()).c_str());
}
- (BOOL)apple_needsState {
  return NO;
}
@end
