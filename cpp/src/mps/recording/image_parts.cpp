// Clip rectangles, offsets and channel ranges: their checks in the kernel classes, and the ops that
// read and write image regions.
#include "mps/recording/image_parts.h"

#include <algorithm>

#include "mps/recording/distances.h"
#include "ops/emit.h"

namespace traingraph::mps {
namespace {

using ir::ValueId;

ValueId slice(ir::Graph& graph, ValueId x, int axis, std::int64_t first, std::int64_t extent) {
  if (first == 0 && extent == graph.type(x).shape[static_cast<std::size_t>(axis)]) return x;
  return ops::apply1(graph, ir::Op::slice, ir::SliceAttributes{axis, first, extent}, {x});
}

// How many elements of an axis lie in [first, first + extent).
std::int64_t overlap(std::int64_t first, std::int64_t extent, std::int64_t size) {
  return std::min(extent, size - first);
}

// `value` in place of what lies in `image` from `first` on, along this axis and the later ones.
ValueId insert(ir::Graph& graph, ValueId image, ValueId value,
               const std::array<std::int64_t, 3>& first, int axis = 1) {
  if (axis > 3) return value;
  const auto at = static_cast<std::size_t>(axis);
  const std::int64_t begin = first[at - 1];
  const std::int64_t extent = graph.type(value).shape[at];
  const std::int64_t all = graph.type(image).shape[at];
  std::vector<ValueId> parts;
  if (begin > 0) parts.push_back(slice(graph, image, axis, 0, begin));
  const ValueId middle = slice(graph, image, axis, begin, extent);
  parts.push_back(insert(graph, middle, value, first, axis + 1));
  if (begin + extent < all) {
    parts.push_back(slice(graph, image, axis, begin + extent, all - begin - extent));
  }
  if (parts.size() == 1) return parts[0];
  return ops::apply1(graph, ir::Op::concatenate, ir::AxisAttributes{axis}, std::move(parts));
}

}  // namespace

ValueId read_part(ir::Graph& graph, ValueId image, const ImagePart& part) {
  for (int axis = 1; axis <= 3; ++axis) {
    const auto at = static_cast<std::size_t>(axis) - 1;
    image = slice(graph, image, axis, part.first[at], part.extent[at]);
  }
  ir::Type around = graph.type(image);
  if (around.shape[2] == part.size[0] && around.shape[3] == part.size[1]) return image;
  around.shape[2] = part.size[0];
  around.shape[3] = part.size[1];
  return insert(graph, ops::filled(graph, around, 0), image, {0, part.place[0], part.place[1]});
}

ValueId read_region(ir::Graph& graph, ValueId image, const Region& region) {
  const Shape shape = graph.type(image).shape;
  const Offset& origin = region.origin;
  image = slice(graph, image, 2, origin.y, overlap(origin.y, region.height, shape[2]));
  return slice(graph, image, 3, origin.x, overlap(origin.x, region.width, shape[3]));
}

ValueId write_part(ir::Graph& graph, ValueId image, ValueId value, const ImagePart& part) {
  value = slice(graph, value, 2, part.place[0], part.extent[1]);
  value = slice(graph, value, 3, part.place[1], part.extent[2]);
  return insert(graph, image, value, part.first);
}

ImageDescriptor as_seen(ImageDescriptor image, const ImagePart& part) {
  image.feature_channels = part.extent[0];
  image.height = part.size[0];
  image.width = part.size[1];
  return image;
}

ImagePart strided_part(const ImageDescriptor& image, const SourcePart& source,
                       const BroadcastStrides& strides, std::int64_t rows, std::int64_t columns) {
  ImagePart part;
  const std::int64_t channels =
      std::min(image.feature_channels - source.channels.offset, source.channels.max_count);
  part.first = {source.channels.offset, source.offset.y, source.offset.x};
  part.extent = {strides.feature_channels == 0 ? 1 : channels, strides.y == 0 ? 1 : rows,
                 strides.x == 0 ? 1 : columns};
  part.size = {part.extent[1], part.extent[2]};
  return part;
}

ImagePart channels_of(const ImageDescriptor& d, const ChannelRange& channels) {
  return {{channels.offset, 0, 0},
          {d.feature_channels, d.height, d.width},
          {d.height, d.width},
          {0, 0}};
}

// --- what may be set -----------------------------------------------------------------------------

void Kernel::check_channel_offset(std::int64_t offset) const {
  if (offset >= 0 && offset % 4 == 0) return;
  refuse("expected a channel offset that is a multiple of 4 but got " + std::to_string(offset));
}
void Kernel::set_channels(ChannelRange& member, const ChannelRange& value) const {
  check_channel_offset(value.offset);
  if (value.max_count < 1) {
    refuse("expected 1 channel or more but got " + std::to_string(value.max_count));
  }
  member = value;
}

ImageDescriptor Kernel::seen(const ImageDescriptor& image, const ChannelRange& channels) const {
  if (channels.offset >= image.feature_channels) {
    refuse_shape("expected images of more than " + std::to_string(channels.offset) +
                 " channels, the offset, but got " + to_string(image));
  }
  ImageDescriptor result = image;
  result.feature_channels = std::min(image.feature_channels - channels.offset, channels.max_count);
  return result;
}

void Kernel::check_region(const Region& region, const char* what, bool of_any_images) const {
  const Offset& origin = region.origin;
  if (origin.x < 0 || origin.y < 0 || origin.z < 0 || region.width < 1 || region.height < 1 ||
      region.depth < 1) {
    refuse("expected a " + std::string(what) +
           " of 1 pixel or more that begins at 0 or more but got " + std::to_string(region.width) +
           "x" + std::to_string(region.height) + "x" + std::to_string(region.depth) + " at " +
           std::to_string(origin.x) + ", " + std::to_string(origin.y) + ", " +
           std::to_string(origin.z));
  }
  if (origin.z == 0 || of_any_images) return;
  refuse_use("a " + std::string(what) +
             " that leaves out the first images: encode a part of the batch");
}

ImageDescriptor Kernel::seen(const ImageDescriptor& image, const Region& region) const {
  ImageDescriptor result = image;
  result.width = overlap(region.origin.x, region.width, image.width);
  result.height = overlap(region.origin.y, region.height, image.height);
  if (result.width < 1 || result.height < 1) {
    refuse_shape("expected a source rectangle that begins within source images " +
                 to_string(image) + " but got one at column " + std::to_string(region.origin.x) +
                 ", row " + std::to_string(region.origin.y));
  }
  if (region.depth < image.number_of_images) {
    refuse_use("a source rectangle that leaves out images: encode a part of the batch");
  }
  return result;
}

// --- writing a part ------------------------------------------------------------------------------

void ClippedKernel::set_clip_rect(const Region& clip) {
  check_region(clip, "clip rectangle", true);
  clip_ = clip;
}
void ClippedKernel::set_destination_feature_channel_offset(std::int64_t value) {
  check_channel_offset(value);
  destination_channel_ = value;
}
void ClippedKernel::refuse_parts() const {
  if (is_partial()) refuse_use("a clip rectangle or an offset here: only whole images");
}
void ClippedKernel::write_everything() {
  clip_ = {};
  destination_channel_ = 0;
}

ImagePart ClippedKernel::destination_part(const ImageDescriptor& destination,
                                          const ImageDescriptor& result, bool has_window,
                                          const Offset& place) const {
  ImagePart part;
  const std::int64_t columns = overlap(clip_.origin.x, clip_.width, destination.width);
  const std::int64_t rows = overlap(clip_.origin.y, clip_.height, destination.height);
  if (rows < 1 || columns < 1) {
    refuse_shape("expected a clip rectangle that begins within destination images " +
                 to_string(destination) + " but got one at column " +
                 std::to_string(clip_.origin.x) + ", row " + std::to_string(clip_.origin.y));
  }
  if (!lies_within(destination_channel_, result.feature_channels, destination.feature_channels)) {
    refuse_shape("expected destination images of " +
                 std::to_string(along(destination_channel_, 1, result.feature_channels)) +
                 " channels or more, the offset included, but got " + to_string(destination));
  }
  part.first = {destination_channel_, clip_.origin.y, clip_.origin.x};
  part.extent = {result.feature_channels, rows, columns};
  part.size = {rows, columns};
  if (has_window) return part;
  part.size = {result.height, result.width};
  part.place = {place.y, place.x};
  const bool fits = lies_within(part.place[0], rows, result.height) &&
                    lies_within(part.place[1], columns, result.width);
  const bool fills = rows == result.height && columns == result.width;
  if (fits && (fills || !clip_.whole() || !place.is_zero())) return part;
  refuse_shape("expected " + std::to_string(rows) + "x" + std::to_string(columns) +
               " pixels to write from row " + std::to_string(part.place[0]) + ", column " +
               std::to_string(part.place[1]) + " of a result but it is " + to_string(result));
}

// --- reading parts of two sources ----------------------------------------------------------------

void TwoSourceKernel::check_inside(const ImagePart& part, const ImageDescriptor& image,
                                   const char* what) const {
  const std::array<std::int64_t, 3> sizes = {image.feature_channels, image.height, image.width};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (lies_within(part.first[axis], part.extent[axis], sizes[axis])) continue;
    refuse_shape(std::string("expected ") + what + " with " + std::to_string(part.extent[1]) + "x" +
                 std::to_string(part.extent[2]) + " pixels at column " +
                 std::to_string(part.first[2]) + ", row " + std::to_string(part.first[1]) +
                 ", the offset, but got " + to_string(image));
  }
}

// --- forward kernels -----------------------------------------------------------------------------

ImagePart CNNKernel::written_part(const ImageDescriptor& source,
                                  const ImageDescriptor& destination) const {
  const ImageDescriptor used = seen(source, source_channels_);
  const ImageDescriptor result = result_of(used);
  const bool same_size = result.height == used.height && result.width == used.width;
  if (!same_size && !place().is_zero()) {
    refuse_use("an offset: the result is not of its source's size");
  }
  return destination_part(destination, result, has_window(), place());
}

void CNNKernel::add_source(Recording& recording, const ImageBatch& sources) const {
  recording.input(sources,
                  channels_of(seen(sources[0]->descriptor(), source_channels_), source_channels_));
}
void CNNKernel::add_destination(Recording& recording, const ImageBatch& sources,
                                const ImageBatch& destinations) const {
  if (!is_partial()) return recording.result(destinations);
  recording.result(destinations,
                   written_part(sources[0]->descriptor(), destinations[0]->descriptor()));
}

void CNNKernel::check_parts_have_gradient(const ImageDescriptor& source) const {
  const ImageDescriptor used = seen(source, source_channels_);
  const ImageDescriptor result = result_of(used);
  if (clip_.whole() || has_window()) return;
  if (result.height == used.height && result.width == used.width) return;
  refuse_use("a clip rectangle with a state: the result is not of its source's size");
}

void CNNKernel::set_parts(const CommandBuffer& buffer, const ImageBatch& sources,
                          const StateBatch& states, const ImageBatch& destinations) const {
  if (states.empty()) return;
  ImageParts parts;
  ImageDescriptor written = destinations[0]->descriptor();
  if (is_partial()) {
    const ImagePart part = written_part(sources[0]->descriptor(), written);
    parts.source = source_channels_;
    parts.destination = written;
    parts.channel = part.first[0];
    parts.origin = {part.first[2], part.first[1], 0};
    if (!clip_.whole() || !place().is_zero()) {
      parts.clip_height = part.extent[1];
      parts.clip_width = part.extent[2];
    }
    written.feature_channels = part.extent[0];
    written.height = part.extent[1];
    written.width = part.extent[2];
  }
  const State* last = nullptr;  // one object may stand for all
  for (const StatePtr& state : states) {
    if (state.get() == last) continue;
    last = state.get();
    auto* own = dynamic_cast<GradientState*>(state.get());
    if (own == nullptr) continue;
    own->set_parts(parts);
    own->encoded_forward(buffer, written);
  }
}

void CNNKernel::set_images(const StateBatch& states, const Neighbours& read,
                           const ImageBatch& destinations) const {
  for (const StatePtr& state : states) {
    auto* own = dynamic_cast<GradientState*>(state.get());
    if (own == nullptr) continue;
    ImageParts parts = own->parts();
    parts.images = read;
    parts.origin.z = clip_.origin.z;
    parts.destination = for_batch(destinations[0]->descriptor(), destinations);
    own->set_parts(parts);
  }
}

// --- gradient kernels ----------------------------------------------------------------------------

// The gradient of the source's channels that were read goes where they are.
void CNNGradientKernel::configure_parts(const GradientState& state) {
  write_everything();
  const Neighbours& images = state.parts().images;
  if (images.count != 0) {
    clip_.origin.z = images.first;
    clip_.depth = images.count;
  }
  destination_channel_ = state.parts().source.offset;
  secondary_channels_ = state.parts().source;
}

ImagePart CNNGradientKernel::incoming(const ImageDescriptor& gradient,
                                      const GradientState& state) const {
  const ImageDescriptor used = seen(gradient, primary_channels_);
  const ImageParts& forward = state.parts();
  const std::optional<ImageDescriptor>& written = state.written();
  if (written && (used.width != written->width || used.height != written->height)) {
    refuse_shape("expected source gradients " + std::to_string(written->height) + "x" +
                 std::to_string(written->width) + ", the size of the forward kernel's " +
                 (forward.clip_width == 0 ? "result" : "clip rectangle") + ", but got " +
                 to_string(gradient));
  }
  if (written && used.feature_channels != written->feature_channels) {
    refuse_shape("expected source gradients of " + std::to_string(written->feature_channels) +
                 " channels but got " + to_string(gradient));
  }
  Offset secondary = window_.offset;
  if (takes_some_images()) secondary.z = 0;
  if (forward.clip_width == 0 && !has_window() && !secondary.is_zero()) {
    refuse_use("a secondary offset: the forward kernel has written whole images");
  }
  return channels_of(used, primary_channels_);
}

void CNNGradientKernel::put(ImagePart& part, std::int64_t rows, std::int64_t columns,
                            const Offset& at) const {
  part.size = {rows, columns};
  part.place = {at.y, at.x};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (lies_within(part.place[axis], part.extent[axis + 1], part.size[axis])) continue;
    refuse_shape("expected source gradients that lie within " + std::to_string(rows) + "x" +
                 std::to_string(columns) + " pixels but got " + std::to_string(part.extent[1]) +
                 "x" + std::to_string(part.extent[2]) + " at column " + std::to_string(at.x) +
                 ", row " + std::to_string(at.y));
  }
}

// A clip rectangle of a kernel without a moving window is a part of the whole result, at the
// secondary offset.
GradientParts CNNGradientKernel::parts(const ImageDescriptor& gradient,
                                       const ImageDescriptor& source,
                                       const GradientState& state) const {
  const ImageDescriptor used = seen(source, secondary_channels_);
  GradientParts parts{
      incoming(gradient, state), channels_of(used, secondary_channels_), result_of(state), {}};
  if (!secondary_channels_.whole()) parts.result.feature_channels = used.feature_channels;
  if (state.parts().clip_width == 0 || has_window()) return parts;
  parts.first = window_.offset;
  put(parts.gradient, source.height, source.width, parts.first);
  return parts;
}

void CNNGradientKernel::add_sources(Recording& recording, const ImageBatch& gradients,
                                    const ImageBatch& sources, const GradientParts& parts) const {
  recording.input(gradients, parts.gradient);
  recording.input(sources, parts.secondary);
}

}  // namespace traingraph::mps
