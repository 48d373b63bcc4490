// Memory as the matrices and images that kernels of Metal Performance Shaders take. For .mm files
// only.
#pragma once

#include <vector>

#import <MetalPerformanceShaders/MetalPerformanceShaders.h>

#include "backends/metal/device/kernel.h"
#include "backends/metal/device/objects.h"

namespace traingraph::metal {

// A dense value as an object of the class `Object`. It is made again only where the address is not
// that of the run before.
template <class Object, class Descriptor>
class ObjectAt {
 public:
  Object* at(const Encoding& encoding, const std::byte* address) {
    if (address != address_) {
      const Place memory = place(encoding.device(), address);
      object_ = Ref<Object*>::own([[Object alloc] initWithBuffer:memory.buffer
                                                          offset:memory.offset
                                                      descriptor:descriptor_.get()]);
      address_ = address;
    }
    return object_.get();
  }

 protected:
  explicit ObjectAt(Ref<Descriptor*> descriptor) : descriptor_(std::move(descriptor)) {}

 private:
  Ref<Descriptor*> descriptor_;
  const std::byte* address_ = nullptr;
  Ref<Object*> object_;
};

// As `matrices` matrices of rows and columns.
class MatrixAt : public ObjectAt<MPSMatrix, MPSMatrixDescriptor> {
 public:
  MatrixAt(std::int64_t rows, std::int64_t columns, std::int64_t matrices = 1);
};

// As one row.
class VectorAt : public ObjectAt<MPSVector, MPSVectorDescriptor> {
 public:
  explicit VectorAt(std::int64_t length);
};

// A value (N, C, H, W) that goes to images, one per row of the batch, or comes from them. Channels
// lie in slices of four there; Apple's copies between a matrix and images know both orders.
class ImagesAt {
 public:
  ImagesAt(Device& device, const Shape& shape);

  // New temporary images, to be read so many times.
  MPSImageBatch* make(Encoding& encoding, int reads) const;
  // The same with what is at the address.
  MPSImageBatch* read(Encoding& encoding, const std::byte* address, int reads);
  // Copies what is at the address to images that are there.
  void copy(Encoding& encoding, const std::byte* address, MPSImageBatch* images);
  // Copies the images to the address, which is one read of each.
  void write(Encoding& encoding, MPSImageBatch* images, const std::byte* address);

 private:
  std::int64_t rows_;
  Ref<MPSImageDescriptor*> descriptor_;
  MatrixAt matrix_;
  Ref<MPSMatrixCopyToImage*> to_images_;
  Ref<MPSImageCopyToMatrix*> from_images_;
};

// Permanent images, one for each row of a value (N, C, H, W).
Ref<MPSImageBatch*> permanent_images(Device& device, const Shape& shape);

// One permanent image of zeros for each row of a value (N, C, H, W): for sources of which a kernel
// reads only the size, and for results that it does not write.
Ref<MPSImageBatch*> blank_images(Device& device, const Shape& shape);

// Why a value cannot be images; empty where it can.
std::string no_images(const Shape& shape);

}  // namespace traingraph::metal
