// Doubles of MPSImage and its descriptors: texels, bytes in the formats of Apple, read counts.
#include "image.h"

#include <cstring>
#include <set>

#include "state.h"

namespace apple {

void broken(const char* what, const std::string& rule) { fail(std::string(what) + ": " + rule); }

float to_half_and_back(float value) { return static_cast<float>(static_cast<_Float16>(value)); }

namespace {

std::set<id> unique(NSArray* batch) {
  std::set<id> objects;
  for (id object in batch) objects.insert(object);
  return objects;
}

// Takes one read from a temporary object; a permanent one has no count.
template <class Object>
void take_read(Object object, std::uint64_t owner, id<MTLCommandBuffer> commands,
               const char* what) {
  if (owner == 0) return;
  if (owner != number_of(commands))
    broken(what, "something temporary is used with another command buffer than its own");
  if ([object readCount] == 0)
    broken(what, "something temporary is read more often than its readCount says");
  [object setReadCount:[object readCount] - 1];
}

void add_pictures(Pictures& pictures, MPSImage* image, NSUInteger first, NSUInteger most) {
  const auto& storage = image->inside_MPSImage;
  for (NSUInteger index = 0; index < storage->images; ++index)
    pictures.push_back({storage, index, first, std::min(storage->channels - first, most)});
}

void check_offset(MPSImageBatch* batch, NSUInteger first_channel, const char* what) {
  if (first_channel % 4 != 0) broken(what, "an offset of feature channels is no multiple of four");
  for (MPSImage* image in batch)
    if (first_channel >= [image featureChannels])
      broken(what, "an offset of feature channels is beyond its image");
}

}  // namespace

Pictures read(MPSImageBatch* batch, id<MTLCommandBuffer> commands, const char* what,
              NSUInteger first_channel, NSUInteger most_channels) {
  encodable(commands, what);
  if (batch == nil || [batch count] == 0) broken(what, "a source image is missing");
  check_offset(batch, first_channel, what);
  for (id object : unique(batch)) {
    auto* image = (MPSImage*)object;
    if ([object isKindOfClass:[MPSTemporaryImage class]])
      take_read((MPSTemporaryImage*)object, image->inside_MPSImage->commands, commands, what);
  }
  Pictures pictures;
  for (MPSImage* image in batch) add_pictures(pictures, image, first_channel, most_channels);
  return pictures;
}

Pictures write(MPSImageBatch* batch, id<MTLCommandBuffer> commands, const char* what,
               const std::vector<MPSImageBatch*>& sources, NSUInteger first_channel) {
  if (batch == nil || [batch count] == 0) broken(what, "a destination image is missing");
  check_offset(batch, first_channel, what);
  if (unique(batch).size() != [batch count]) broken(what, "a destination image is given twice");
  std::set<const MPSImageInside*> read;
  for (MPSImageBatch* source : sources)
    for (MPSImage* image in source) read.insert(image->inside_MPSImage.get());
  Pictures pictures;
  for (MPSImage* image in batch) {
    const auto& storage = image->inside_MPSImage;
    if (read.count(storage.get()) != 0) broken(what, "a destination image is also a source");
    if (storage->commands != 0 && storage->commands != number_of(commands))
      broken(what, "something temporary is used with another command buffer than its own");
    if (storage->commands != 0 && [(MPSTemporaryImage*)image readCount] == 0)
      broken(what, "a temporary image is written after its last read");
    add_pictures(pictures, image, first_channel, NSUIntegerMax);
  }
  return pictures;
}

void use_state(MPSState* state, id<MTLCommandBuffer> commands, const char* what) {
  if (state == nil) broken(what, "a state is missing");
  MPSStateInside& inside = *state->inside_MPSState;
  if (inside.commands == 0 && inside.of_one_batch) inside.commands = number_of(commands);
  if (inside.commands != 0 && inside.commands != number_of(commands))
    broken(what, "a state of one command buffer is used with another one");
  if ([state isTemporary] && [state readCount] == 0)
    broken(what, "a temporary state is used after its last read");
}

void read_state(MPSState* state, id<MTLCommandBuffer> commands, const char* what) {
  use_state(state, commands, what);
  if ([state isTemporary]) take_read(state, state->inside_MPSState->commands, commands, what);
}

void read_states(MPSStateBatch* states, id<MTLCommandBuffer> commands, const char* what) {
  for (id state : unique(states)) read_state((MPSState*)state, commands, what);
}

}  // namespace apple

@implementation MPSImageDescriptor
MEMBERS(MPSImageDescriptor)
+ (instancetype)imageDescriptorWithChannelFormat:(MPSImageFeatureChannelFormat)channelFormat
                                           width:(NSUInteger)width
                                          height:(NSUInteger)height
                                 featureChannels:(NSUInteger)featureChannels {
  return [self
      imageDescriptorWithChannelFormat:channelFormat
                                 width:width
                                height:height
                       featureChannels:featureChannels
                        numberOfImages:1
                                 usage:MTLTextureUsageShaderRead | MTLTextureUsageShaderWrite];
}
+ (instancetype)imageDescriptorWithChannelFormat:(MPSImageFeatureChannelFormat)channelFormat
                                           width:(NSUInteger)width
                                          height:(NSUInteger)height
                                 featureChannels:(NSUInteger)featureChannels
                                  numberOfImages:(NSUInteger)numberOfImages
                                           usage:(MTLTextureUsage)usage {
  apple::expect(channelFormat == MPSImageFeatureChannelFormatFloat16 ||
                    channelFormat == MPSImageFeatureChannelFormatFloat32,
                "images of this double are of float16 or float32");
  MPSImageDescriptor* made = [[[self alloc] init] autorelease];
  made->_channelFormat = channelFormat;
  made->_width = width;
  made->_height = height;
  made->_featureChannels = featureChannels;
  made->_numberOfImages = numberOfImages;
  made->_usage = usage;
  return made;
}
- (id)copyWithZone:(NSZone*)zone {
  (void)zone;
  return [[MPSImageDescriptor imageDescriptorWithChannelFormat:_channelFormat
                                                         width:_width
                                                        height:_height
                                               featureChannels:_featureChannels
                                                numberOfImages:_numberOfImages
                                                         usage:_usage] retain];
}
@end

namespace {

// A rectangle of one image as bytes in one of the two layouts; calls visit(texel, bytes of a
// value).
template <class Visit>
void visit_bytes(MPSImageInside& storage, MPSDataLayout layout, NSUInteger row_bytes,
                 NSUInteger image_bytes, MTLRegion region, MPSImageReadWriteParams part,
                 NSUInteger image, Visit visit) {
  const NSUInteger value_bytes = storage.half ? 2 : 4;
  const NSUInteger count = part.numberOfFeatureChannelsToReadWrite;
  apple::expect(image < storage.images, "bytes of an image that is not there");
  apple::expect(part.featureChannelOffset + count <= storage.channels,
                "bytes of channels that are not there");
  apple::expect(region.origin.x + region.size.width <= storage.width &&
                    region.origin.y + region.size.height <= storage.height,
                "bytes of a region that is beyond its image");
  for (NSUInteger channel = 0; channel < count; ++channel)
    for (NSUInteger y = 0; y < region.size.height; ++y)
      for (NSUInteger x = 0; x < region.size.width; ++x) {
        const NSUInteger at = layout == MPSDataLayoutHeightxWidthxFeatureChannels
                                  ? y * row_bytes + (x * count + channel) * value_bytes
                                  : channel * image_bytes + y * row_bytes + x * value_bytes;
        visit(storage.at(image, region.origin.x + x, region.origin.y + y,
                         part.featureChannelOffset + channel),
              at);
      }
}

}  // namespace

const MTLRegion MPSRectNoClip = {{0, 0, 0}, {NSUIntegerMax, NSUIntegerMax, NSUIntegerMax}};

@implementation MPSImage
MEMBERS(MPSImage)
- (instancetype)initWithDevice:(id<MTLDevice>)device
               imageDescriptor:(const MPSImageDescriptor*)descriptor {
  self = [super init];
  _device = [device retain];
  const NSUInteger texels = descriptor->_width * descriptor->_height *
                            descriptor->_featureChannels * descriptor->_numberOfImages;
  apple::expect(texels != 0, "an MPSImage without texels");
  _width = descriptor->_width;
  _height = descriptor->_height;
  _featureChannels = descriptor->_featureChannels;
  _numberOfImages = descriptor->_numberOfImages;
  _usage = descriptor->_usage;
  _featureChannelFormat = descriptor->_channelFormat;
  _precision = _featureChannelFormat == MPSImageFeatureChannelFormatFloat16 ? 11 : 24;
  _pixelSize = _featureChannelFormat == MPSImageFeatureChannelFormatFloat16 ? 8 : 16;
  inside_MPSImage = std::make_shared<MPSImageInside>();
  inside_MPSImage->width = _width;
  inside_MPSImage->height = _height;
  inside_MPSImage->channels = _featureChannels;
  inside_MPSImage->images = _numberOfImages;
  inside_MPSImage->half = _featureChannelFormat == MPSImageFeatureChannelFormatFloat16;
  // Memory holds anything before it is written.
  inside_MPSImage->texels.assign(_numberOfImages * inside_MPSImage->slices() * _height * _width * 4,
                                 std::numeric_limits<float>::quiet_NaN());
  return self;
}
- (NSUInteger)resourceSize {
  return inside_MPSImage->texels.size() * (inside_MPSImage->half ? 2 : 4);
}
- (MPSImageBatch*)batchRepresentation {
  apple::expect(_numberOfImages == 1,
                "batchRepresentation of several images has no behaviour here");
  return [NSArray arrayWithObject:self];
}
- (void)synchronizeOnCommandBuffer:(id<MTLCommandBuffer>)commandBuffer {
  apple::encodable(commandBuffer, "the synchronization of an MPSImage");
}
- (void)readBytes:(void*)dataBytes
            dataLayout:(MPSDataLayout)dataLayout
           bytesPerRow:(NSUInteger)bytesPerRow
         bytesPerImage:(NSUInteger)bytesPerImage
                region:(MTLRegion)region
    featureChannelInfo:(MPSImageReadWriteParams)featureChannelInfo
            imageIndex:(NSUInteger)imageIndex {
  apple::expect(inside_MPSImage->commands == 0, "bytes of a temporary image");
  auto* bytes = static_cast<unsigned char*>(dataBytes);
  const bool half = inside_MPSImage->half;
  visit_bytes(*inside_MPSImage, dataLayout, bytesPerRow, bytesPerImage, region, featureChannelInfo,
              imageIndex, [&](float& texel, NSUInteger at) {
                const auto small = static_cast<_Float16>(texel);
                if (half)
                  std::memcpy(bytes + at, &small, sizeof small);
                else
                  std::memcpy(bytes + at, &texel, sizeof texel);
              });
}
- (void)writeBytes:(const void*)dataBytes
            dataLayout:(MPSDataLayout)dataLayout
           bytesPerRow:(NSUInteger)bytesPerRow
         bytesPerImage:(NSUInteger)bytesPerImage
                region:(MTLRegion)region
    featureChannelInfo:(MPSImageReadWriteParams)featureChannelInfo
            imageIndex:(NSUInteger)imageIndex {
  apple::expect(inside_MPSImage->commands == 0, "bytes of a temporary image");
  const auto* bytes = static_cast<const unsigned char*>(dataBytes);
  const bool half = inside_MPSImage->half;
  visit_bytes(*inside_MPSImage, dataLayout, bytesPerRow, bytesPerImage, region, featureChannelInfo,
              imageIndex, [&](float& texel, NSUInteger at) {
                _Float16 small;
                if (half) {
                  std::memcpy(&small, bytes + at, sizeof small);
                  texel = static_cast<float>(small);
                } else {
                  std::memcpy(&texel, bytes + at, sizeof texel);
                }
              });
}
- (void)readBytes:(void*)dataBytes
            dataLayout:(MPSDataLayout)dataLayout
           bytesPerRow:(NSUInteger)bytesPerRow
                region:(MTLRegion)region
    featureChannelInfo:(MPSImageReadWriteParams)featureChannelInfo
            imageIndex:(NSUInteger)imageIndex {
  [self readBytes:dataBytes
              dataLayout:dataLayout
             bytesPerRow:bytesPerRow
           bytesPerImage:bytesPerRow * region.size.height
                  region:region
      featureChannelInfo:featureChannelInfo
              imageIndex:imageIndex];
}
- (void)writeBytes:(const void*)dataBytes
            dataLayout:(MPSDataLayout)dataLayout
           bytesPerRow:(NSUInteger)bytesPerRow
                region:(MTLRegion)region
    featureChannelInfo:(MPSImageReadWriteParams)featureChannelInfo
            imageIndex:(NSUInteger)imageIndex {
  [self writeBytes:dataBytes
              dataLayout:dataLayout
             bytesPerRow:bytesPerRow
           bytesPerImage:bytesPerRow * region.size.height
                  region:region
      featureChannelInfo:featureChannelInfo
              imageIndex:imageIndex];
}
// Bytes of a row of values without gaps.
- (NSUInteger)apple_rowBytes:(MPSDataLayout)dataLayout {
  const NSUInteger values =
      dataLayout == MPSDataLayoutHeightxWidthxFeatureChannels ? _width * _featureChannels : _width;
  return values * (inside_MPSImage->half ? 2 : 4);
}
- (void)readBytes:(void*)dataBytes
       dataLayout:(MPSDataLayout)dataLayout
       imageIndex:(NSUInteger)imageIndex {
  [self readBytes:dataBytes
              dataLayout:dataLayout
             bytesPerRow:[self apple_rowBytes:dataLayout]
                  region:MTLRegionMake3D(0, 0, 0, _width, _height, 1)
      featureChannelInfo:MPSImageReadWriteParams{0, _featureChannels}
              imageIndex:imageIndex];
}
- (void)writeBytes:(const void*)dataBytes
        dataLayout:(MPSDataLayout)dataLayout
        imageIndex:(NSUInteger)imageIndex {
  [self writeBytes:dataBytes
              dataLayout:dataLayout
             bytesPerRow:[self apple_rowBytes:dataLayout]
                  region:MTLRegionMake3D(0, 0, 0, _width, _height, 1)
      featureChannelInfo:MPSImageReadWriteParams{0, _featureChannels}
              imageIndex:imageIndex];
}
@end

@implementation MPSTemporaryImage
PROPERTIES(MPSTemporaryImage)
+ (instancetype)temporaryImageWithCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                                imageDescriptor:(const MPSImageDescriptor*)imageDescriptor {
  apple::encodable(commandBuffer, "a temporary image");
  return [[[self alloc] apple_initWithCommandBuffer:commandBuffer
                                         descriptor:imageDescriptor] autorelease];
}
- (instancetype)apple_initWithCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                                 descriptor:(const MPSImageDescriptor*)descriptor {
  self = [super initWithDevice:[commandBuffer device] imageDescriptor:descriptor];
  inside_MPSImage->commands = apple::number_of(commandBuffer);
  _readCount = 1;
  return self;
}
+ (void)prefetchStorageWithCommandBuffer:(id<MTLCommandBuffer>)commandBuffer
                     imageDescriptorList:(NSArray<MPSImageDescriptor*>*)descriptorList {
  (void)descriptorList;
  apple::encodable(commandBuffer, "the storage of temporary images");
}
- (void)setReadCount:(NSUInteger)readCount {
  apple::expect(_readCount != 0 || (readCount == 0 && apple::lenient()),
                "the readCount of a temporary image is raised from 0, when its storage is gone");
  _readCount = readCount;
}
- (void)dealloc {
  apple::expect(_readCount == 0, "a temporary image is released with reads left in its readCount");
  [super dealloc];
}
@end

BOOL MPSSupportsMTLDevice(id<MTLDevice> device) { return device != nil; }
id<MTLDevice> MPSGetPreferredDevice(MPSDeviceOptions options) {
  if (options != MPSDeviceOptionsDefault) apple::fail("only the default options are known here");
  return [MTLCreateSystemDefaultDevice() autorelease];
}

NSUInteger MPSImageBatchIncrementReadCount(MPSImageBatch* batch, NSInteger amount) {
  NSUInteger temporary = 0;
  for (id object : apple::unique(batch)) {
    if (![object isKindOfClass:[MPSTemporaryImage class]]) continue;
    auto* image = (MPSTemporaryImage*)object;
    [image setReadCount:[image readCount] + static_cast<NSUInteger>(amount)];
    ++temporary;
  }
  return temporary;
}

void MPSImageBatchSynchronize(MPSImageBatch* batch, id<MTLCommandBuffer> commandBuffer) {
  for (MPSImage* image in batch) [image synchronizeOnCommandBuffer:commandBuffer];
}

NSUInteger MPSStateBatchIncrementReadCount(MPSStateBatch* batch, NSInteger amount) {
  for (id object : apple::unique(batch)) {
    auto* state = (MPSState*)object;
    if ([state isTemporary])
      [state setReadCount:[state readCount] + static_cast<NSUInteger>(amount)];
  }
  return [batch count];
}

void MPSStateBatchSynchronize(MPSStateBatch* batch, id<MTLCommandBuffer> commandBuffer) {
  for (MPSState* state in batch) [state synchronizeOnCommandBuffer:commandBuffer];
}
