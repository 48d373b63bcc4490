#include <traingraph/mps/kernel.h>

#include <algorithm>

// The z of offsets and clip rectangles: which images of an object with several are read and
// written. https://developer.apple.com/documentation/metalperformanceshaders/mpsimage
namespace traingraph::mps {

ImageBatch Kernel::some_of(const ImageBatch& batch, const Neighbours& images,
                           const char* what) const {
  const ImageDescriptor& all = batch[0]->descriptor();
  if (images.first == 0 && images.count == all.number_of_images) return batch;
  if (images.first < 0 || images.first > all.number_of_images - images.count) {
    refuse_shape(std::string("expected ") + what + " with " + std::to_string(images.count) +
                 " images from index " + std::to_string(images.first) + " on but got " +
                 batch[0]->description());
  }
  ImageBatch some;
  for (const ImagePtr& image : batch) {
    some.push_back(Image::part_of(image, images, {0, all.feature_channels}));
  }
  return some;
}

Neighbours ClippedKernel::written_images(const ImageBatch& destinations) const {
  const ImageDescriptor& each = destinations[0]->descriptor();
  const std::int64_t rest = each.number_of_images - clip_.origin.z;
  if (rest >= 1) return {clip_.origin.z, std::min(rest, clip_.depth)};
  refuse_shape("expected a clip rectangle that begins within destination images " +
               to_string(each) + " but got one at image " + std::to_string(clip_.origin.z));
}

}  // namespace traingraph::mps
