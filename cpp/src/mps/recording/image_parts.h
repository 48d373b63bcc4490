#pragma once

#include <traingraph/mps/arithmetic.h>

#include "ir/graph.h"
#include "mps/recording/recording.h"

namespace traingraph::mps {

// How many images a batch of images has.
inline std::int64_t images_in(const ImageBatch& batch) {
  return static_cast<std::int64_t>(batch.size()) * batch[0]->descriptor().number_of_images;
}
inline ImageDescriptor for_batch(ImageDescriptor descriptor, const ImageBatch& batch) {
  descriptor.number_of_images = images_in(batch);
  return descriptor;
}

// A result whose format nobody has said: that of the source, but for the normalized ones, which end
// at 0 and 1.
inline ImageDescriptor unclamped(ImageDescriptor result) {
  const ChannelFormat format = result.channel_format;
  if (format == ChannelFormat::kUnorm8 || format == ChannelFormat::kUnorm16) {
    result.channel_format = ChannelFormat::kFloat32;
  }
  return result;
}

// What a gradient kernel reads, and what its operation gives.
struct GradientParts {
  ImagePart gradient;
  ImagePart secondary;
  ImageDescriptor result;
  Offset first;  // the result's pixel that a clip rectangle begins with
};

// What a kernel with two sources reads and writes, and the size of its result.
struct BinaryParts {
  ImagePart primary;
  ImagePart secondary;
  ImagePart destination;
  ImageDescriptor result;
};

// What an operation sees of an image (N, C, H, W).
ir::ValueId read_part(ir::Graph& graph, ir::ValueId image, const ImagePart& part);
// The pixels of an image (N, C, H, W) that lie in a region.
ir::ValueId read_region(ir::Graph& graph, ir::ValueId image, const Region& region);
// The image with the part of `value` in it.
ir::ValueId write_part(ir::Graph& graph, ir::ValueId image, ir::ValueId value,
                       const ImagePart& part);
// An image that is seen as this part.
ImageDescriptor as_seen(ImageDescriptor image, const ImagePart& part);
// What is read of a source for so many rows and columns: one where its stride is 0.
ImagePart strided_part(const ImageDescriptor& image, const SourcePart& source,
                       const BroadcastStrides& strides, std::int64_t rows, std::int64_t columns);
// What is seen of an image of which only these channels are read.
ImagePart channels_of(const ImageDescriptor& seen, const ChannelRange& channels);

}  // namespace traingraph::mps
