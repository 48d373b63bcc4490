// How matrices and images over memory are made and copied, by Metal Performance Shaders.
#include "backends/metal/images/images.h"

namespace traingraph::metal {
namespace {

// https://developer.apple.com/metal/Metal-Feature-Set-Tables.pdf: of every Mac's GPU.
constexpr std::int64_t kMostPixels = 16384;
constexpr std::int64_t kMostSlices = 2048;

NSUInteger count(std::int64_t number) { return static_cast<NSUInteger>(number); }

// Of one row of a value (N, C, H, W).
Ref<MPSImageDescriptor*> image_descriptor(const Shape& shape) {
  const Pool pool;
  return Ref<MPSImageDescriptor*>::keep([MPSImageDescriptor
      imageDescriptorWithChannelFormat:MPSImageFeatureChannelFormatFloat32
                                 width:count(shape[3])
                                height:count(shape[2])
                       featureChannels:count(shape[1])]);
}

Ref<MPSMatrixDescriptor*> matrix_descriptor(std::int64_t rows, std::int64_t columns,
                                            std::int64_t matrices) {
  const Pool pool;
  const NSUInteger row_bytes = count(columns) * sizeof(float);
  return Ref<MPSMatrixDescriptor*>::keep([MPSMatrixDescriptor
      matrixDescriptorWithRows:count(rows)
                       columns:count(columns)
                      matrices:count(matrices)
                      rowBytes:row_bytes
                   matrixBytes:count(rows) * row_bytes
                      dataType:MPSDataTypeFloat32]);
}

Ref<MPSVectorDescriptor*> vector_descriptor(std::int64_t length) {
  const Pool pool;
  return Ref<MPSVectorDescriptor*>::keep(
      [MPSVectorDescriptor vectorDescriptorWithLength:count(length) dataType:MPSDataTypeFloat32]);
}

}  // namespace

MatrixAt::MatrixAt(std::int64_t rows, std::int64_t columns, std::int64_t matrices)
    : ObjectAt(matrix_descriptor(rows, columns, matrices)) {}

VectorAt::VectorAt(std::int64_t length) : ObjectAt(vector_descriptor(length)) {}

ImagesAt::ImagesAt(Device& device, const Shape& shape)
    : rows_(shape[0]),
      descriptor_(image_descriptor(shape)),
      matrix_(shape[0], shape[1] * shape[2] * shape[3]) {
  id<MTLDevice> gpu = device.objects().device.get();
  const MPSDataLayout layout = MPSDataLayoutFeatureChannelsxHeightxWidth;
  to_images_ =
      Ref<MPSMatrixCopyToImage*>::own([[MPSMatrixCopyToImage alloc] initWithDevice:gpu
                                                                        dataLayout:layout]);
  from_images_ =
      Ref<MPSImageCopyToMatrix*>::own([[MPSImageCopyToMatrix alloc] initWithDevice:gpu
                                                                        dataLayout:layout]);
}

MPSImageBatch* ImagesAt::make(Encoding& encoding, int reads) const {
  NSMutableArray<MPSImage*>* images = [NSMutableArray arrayWithCapacity:count(rows_)];
  for (std::int64_t row = 0; row < rows_; ++row) {
    MPSTemporaryImage* image =
        [MPSTemporaryImage temporaryImageWithCommandBuffer:command_buffer(encoding)
                                           imageDescriptor:descriptor_.get()];
    [image setReadCount:count(reads)];
    [images addObject:image];
  }
  return images;
}

MPSImageBatch* ImagesAt::read(Encoding& encoding, const std::byte* address, int reads) {
  MPSImageBatch* images = make(encoding, reads);
  copy(encoding, address, images);
  return images;
}

void ImagesAt::copy(Encoding& encoding, const std::byte* address, MPSImageBatch* images) {
  [to_images_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                  sourceMatrix:matrix_.at(encoding, address)
                             destinationImages:images];
}

void ImagesAt::write(Encoding& encoding, MPSImageBatch* images, const std::byte* address) {
  [from_images_.get() encodeBatchToCommandBuffer:command_buffer(encoding)
                                    sourceImages:images
                               destinationMatrix:matrix_.at(encoding, address)];
}

Ref<MPSImageBatch*> permanent_images(Device& device, const Shape& shape) {
  const Pool pool;
  NSMutableArray<MPSImage*>* images = [NSMutableArray arrayWithCapacity:count(shape[0])];
  for (std::int64_t row = 0; row < shape[0]; ++row) {
    const auto image =
        Ref<MPSImage*>::own([[MPSImage alloc] initWithDevice:device.objects().device.get()
                                             imageDescriptor:image_descriptor(shape).get()]);
    [images addObject:image.get()];
  }
  return Ref<MPSImageBatch*>::keep(images);
}

Ref<MPSImageBatch*> blank_images(Device& device, const Shape& shape) {
  const Pool pool;
  const auto image =
      Ref<MPSImage*>::own([[MPSImage alloc] initWithDevice:device.objects().device.get()
                                           imageDescriptor:image_descriptor(shape).get()]);
  const std::vector<float> zeros(static_cast<std::size_t>(shape[1] * shape[2] * shape[3]));
  [image.get() writeBytes:zeros.data()
               dataLayout:MPSDataLayoutFeatureChannelsxHeightxWidth
               imageIndex:0];
  NSMutableArray<MPSImage*>* images = [NSMutableArray arrayWithCapacity:count(shape[0])];
  for (std::int64_t row = 0; row < shape[0]; ++row) [images addObject:image.get()];
  return Ref<MPSImageBatch*>::keep(images);
}

std::string no_images(const Shape& shape) {
  if (shape.size() != 4) return "images have (N, C, H, W)";
  if (shape[2] > kMostPixels || shape[3] > kMostPixels) return "images of more than 16384 pixels";
  if (shape[1] > 4 * kMostSlices) return "images of more than 8192 channels";
  return {};
}

}  // namespace traingraph::metal
