// The default allocators of permanent and temporary images, and the checks of images that an
// allocator returns.
#include "mps/images/image_allocator.h"

#include <traingraph/errors.h>

namespace traingraph::mps {
namespace {

// The images of one object, which are allocated together.
class DefaultAllocator : public ImageAllocator {
 public:
  ImageBatch image_batch(CommandBuffer& buffer, const ImageDescriptor& descriptor,
                         const Kernel* kernel, std::int64_t count) final {
    if (count < 1) {
      throw InvalidArgument("[MPSImageAllocator] expected 1 image or more but got " +
                            std::to_string(count));
    }
    // Of several images each they are one by one.
    ImageBatch batch;
    if (descriptor.number_of_images != 1) {
      while (static_cast<std::int64_t>(batch.size()) < count) {
        batch.push_back(image(buffer, descriptor, kernel));
      }
      return batch;
    }
    ImageDescriptor all = descriptor;
    all.number_of_images = count;
    return image(buffer, all, kernel)->batch_representation();
  }
};

class PermanentImages final : public DefaultAllocator {
 public:
  ImagePtr image(CommandBuffer& buffer, const ImageDescriptor& descriptor, const Kernel*) override {
    return Image::create(buffer.device(), descriptor);
  }
};

class TemporaryImages final : public DefaultAllocator {
 public:
  ImagePtr image(CommandBuffer& buffer, const ImageDescriptor& descriptor, const Kernel*) override {
    return Image::temporary(buffer, descriptor);
  }
};

[[noreturn]] void refuse(const Kernel* kernel, const std::string& text) {
  throw InvalidArgument("[" + (kernel == nullptr ? "MPSImageAllocator" : kernel->description()) +
                        "] expected an image allocator to make " + text);
}

}  // namespace

ImageAllocator::~ImageAllocator() = default;

const ImageAllocatorPtr& Image::default_allocator() {
  static const ImageAllocatorPtr allocator = std::make_shared<PermanentImages>();
  return allocator;
}
const ImageAllocatorPtr& TemporaryImage::default_allocator() {
  static const ImageAllocatorPtr allocator = std::make_shared<TemporaryImages>();
  return allocator;
}

void AllocatesImages::set_image_allocator(ImageAllocatorPtr value) {
  if (value == nullptr) {
    throw InvalidArgument("[MPSImageAllocator] expected an allocator of images but got none");
  }
  allocator_ = std::move(value);
}
void AllocatesImages::set_makes_temporary_images(bool value) {
  allocator_ = value ? TemporaryImage::default_allocator() : Image::default_allocator();
}

ImageBatch allocated(CommandBuffer& buffer, const ImageDescriptor& descriptor,
                     ImageAllocator& allocator, const Kernel* kernel, bool one_by_one) {
  ImageDescriptor each = descriptor;
  const std::int64_t count = one_by_one ? std::exchange(each.number_of_images, 1) : 1;
  ImageBatch made = one_by_one ? allocator.image_batch(buffer, each, kernel, count)
                               : ImageBatch{allocator.image(buffer, each, kernel)};
  if (static_cast<std::int64_t>(made.size()) != count) {
    refuse(kernel, std::to_string(count) + " images but got " + std::to_string(made.size()));
  }
  for (const ImagePtr& image : made) {
    if (image == nullptr) refuse(kernel, "images but got none");
    if (!(image->device() == buffer.device())) {
      refuse(kernel, "images of device " + buffer.device().name() + " but got one of " +
                         image->device().name());
    }
    if (image->descriptor() == each) continue;
    refuse(kernel, "images " + to_string(each) + " of the format that is asked for but got " +
                       image->description());
  }
  return made;
}

}  // namespace traingraph::mps
