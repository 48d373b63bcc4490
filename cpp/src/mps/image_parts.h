#pragma once

#include "ir/graph.h"
#include "mps/recording.h"

namespace traingraph::mps {

// How many images a batch of images has.
inline std::int64_t images_in(const ImageBatch& batch) {
  return static_cast<std::int64_t>(batch.size()) * batch[0]->descriptor().number_of_images;
}
inline ImageDescriptor for_batch(ImageDescriptor descriptor, const ImageBatch& batch) {
  descriptor.number_of_images = images_in(batch);
  return descriptor;
}

// What an operation sees of an image (N, C, H, W).
ir::ValueId read_part(ir::Graph& graph, ir::ValueId image, const ImagePart& part);
// The pixels of an image (N, C, H, W) that lie in a region.
ir::ValueId read_region(ir::Graph& graph, ir::ValueId image, const Region& region);
// The image with the part of `value` in it.
ir::ValueId write_part(ir::Graph& graph, ir::ValueId image, ir::ValueId value,
                       const ImagePart& part);
// What is seen of an image of which only these channels are read.
ImagePart channels_of(const ImageDescriptor& seen, const ChannelRange& channels);

}  // namespace traingraph::mps
