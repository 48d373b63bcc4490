// CNNBinaryKernel: checks two batches of sources, and records an encoding of whole images or parts
// into given or allocated destinations.
#include <traingraph/mps/arithmetic.h>

#include <algorithm>

#include "mps/recording/image_parts.h"
#include "mps/recording/recording.h"

namespace traingraph::mps {

StateBatch CNNBinaryKernel::result_state_batch(const ImageBatch& primaries,
                                               const ImageBatch& secondaries,
                                               const CommandBuffer* temporary_on) const {
  check_batch(primaries, "primary images");
  check_batch(secondaries, "secondary images");
  StateBatch states;
  for (const ImagePtr& image : primaries) {
    states.push_back(make_state(image->descriptor(), secondaries[0]->descriptor(), temporary_on));
  }
  return states;
}

void CNNBinaryKernel::encode_batch(CommandBuffer& buffer, const ImageBatch& primaries,
                                   const ImageBatch& secondaries, const StateBatch& states,
                                   const ImageBatch& destinations) {
  recording(buffer);
  check_batch(primaries, "primary images");
  check_batch(secondaries, "secondary images");
  check_batch(destinations, "destination images");
  const Neighbours written = written_images(destinations);
  if (primary_offset_.z == 0 && secondary_offset_.z == 0 &&
      written.count == destinations[0]->descriptor().number_of_images) {
    encode_images(buffer, primaries, secondaries, states, destinations);
  } else {
    if (!states.empty()) {
      refuse_use("a state where images are left out: encode a part of the batch");
    }
    const std::int64_t count = written.count;
    encode_images(buffer, some_of(primaries, {primary_offset_.z, count}, "primary images"),
                  some_of(secondaries, {secondary_offset_.z, count}, "secondary images"), states,
                  some_of(destinations, written, "destination images"));
  }
  read(primaries);
  read(secondaries);
}

void CNNBinaryKernel::encode_images(CommandBuffer& buffer, const ImageBatch& primaries,
                                    const ImageBatch& secondaries, const StateBatch& states,
                                    const ImageBatch& destinations) {
  Recording& recording = this->recording(buffer);
  if (images_in(primaries) != images_in(secondaries)) {
    refuse_shape("expected as many secondary images as primary ones, " +
                 std::to_string(images_in(primaries)) + ", but got " +
                 std::to_string(images_in(secondaries)));
  }
  const BinaryParts parts = this->parts(primaries, secondaries, destinations);
  const ImageDescriptor& result = parts.result;
  ImageDescriptor got = destinations[0]->descriptor();
  got.channel_format = result.channel_format;
  got.number_of_images = result.number_of_images;  // counted together below
  const bool whole =
      !ClippedKernel::is_partial() && primary_offset_.is_zero() && secondary_offset_.is_zero();
  if ((whole && !(got == result)) || images_in(destinations) != images_in(primaries)) {
    refuse_shape("expected " + std::to_string(primaries.size()) + " destination images " +
                 to_string(result) + " but got " + std::to_string(destinations.size()) + ", " +
                 destinations[0]->description());
  }
  if (!states.empty() && states.size() != primaries.size()) {
    refuse("expected one state per image, " + std::to_string(primaries.size()) + ", but got " +
           std::to_string(states.size()));
  }
  for (const StatePtr& state : states) {
    if (state == nullptr) refuse("expected a state but got none");
    check_destination_state(*state, buffer);
  }
  recording.begin(operation());
  recording.input(primaries, parts.primary);
  recording.input(secondaries, parts.secondary);
  recording.result(destinations, parts.destination);
  add_results(buffer, recording, states, result);
  recording.end();
  for (const StatePtr& state : states) {
    auto* own = dynamic_cast<NNBinaryGradientState*>(state.get());
    if (own == nullptr) continue;
    own->encoded_forward(buffer, result);
    own->primary_part_ = {primary_channels_, primary_offset_};
    own->secondary_part_ = {secondary_channels_, secondary_offset_};
  }
}

ImageDescriptor CNNBinaryKernel::result_of(const ImageBatch& primaries,
                                           const ImageBatch& secondaries) const {
  return destination_image_descriptor(seen(primaries[0]->descriptor(), primary_channels_),
                                      seen(secondaries[0]->descriptor(), secondary_channels_));
}

BinaryParts CNNBinaryKernel::parts(const ImageBatch& primaries, const ImageBatch& secondaries,
                                   const ImageBatch& destinations) const {
  const ImageDescriptor &primary = primaries[0]->descriptor(),
                        &secondary = secondaries[0]->descriptor();
  BinaryParts parts;
  if (clip_.whole() && primary_offset_.is_zero() && secondary_offset_.is_zero()) {
    parts.result = result_of(primaries, secondaries);
    parts.destination =
        destination_part(destinations[0]->descriptor(), parts.result, false, Offset{});
  } else {
    // The destination says how many pixels there are.
    ImageDescriptor a = seen(primary, primary_channels_), b = seen(secondary, secondary_channels_);
    a.height = a.width = b.height = b.width = 1;
    parts.result = destination_image_descriptor(a, b);
    parts.destination =
        destination_part(destinations[0]->descriptor(), parts.result, true, Offset{});
    parts.result.height = parts.destination.extent[1];
    parts.result.width = parts.destination.extent[2];
  }
  const auto part = [&](const ImageDescriptor& image, const SourcePart& source, bool is_secondary,
                        const char* what) {
    const ImagePart read =
        strided_part(image, source, strides(is_secondary), parts.result.height, parts.result.width);
    check_inside(read, image, what);
    return read;
  };
  parts.primary = part(primary, {primary_channels_, primary_offset_}, false, "primary images");
  parts.secondary =
      part(secondary, {secondary_channels_, secondary_offset_}, true, "secondary images");
  return parts;
}

void CNNBinaryKernel::visit_owned(OwnershipVisitor& visitor) const {
  visitor(padding_.own());
  visitor(image_allocator());
}

ImageDescriptor CNNBinaryKernel::sized_result(const ImageBatch& primaries,
                                              const ImageBatch& secondaries) {
  write_everything();
  primary_offset_ = secondary_offset_ = {};
  const ImageDescriptor suggested = unclamped(result_of(primaries, secondaries));
  return by_policy(padding_, suggested, false, [&](NNPadding& policy) {
    ImageBatch sources = primaries;
    sources.insert(sources.end(), secondaries.begin(), secondaries.end());
    return policy.destination_image_descriptor(sources, {}, *this, suggested);
  });
}

ImageBatch CNNBinaryKernel::returned_images(CommandBuffer& buffer, const ImageBatch& primaries,
                                            const ImageBatch& secondaries) {
  ImageDescriptor result = sized_result(primaries, secondaries);
  result.number_of_images = images_in(primaries);
  return make_images(buffer, result, *this, primaries);
}

ImageBatch CNNBinaryKernel::encode_batch(CommandBuffer& buffer, const ImageBatch& primaries,
                                         const ImageBatch& secondaries) {
  recording(buffer);
  check_batch(primaries, "primary images");
  check_batch(secondaries, "secondary images");
  ImageBatch images = returned_images(buffer, primaries, secondaries);
  encode_batch(buffer, primaries, secondaries, StateBatch{}, images);
  return images;
}

ImageBatch CNNBinaryKernel::encode_batch(CommandBuffer& buffer, const ImageBatch& primaries,
                                         const ImageBatch& secondaries, StateBatch& states,
                                         bool temporary_states) {
  recording(buffer);
  states = result_state_batch(primaries, secondaries, temporary_states ? &buffer : nullptr);
  ImageBatch images = returned_images(buffer, primaries, secondaries);
  encode_batch(buffer, primaries, secondaries, states, images);
  return images;
}

}  // namespace traingraph::mps
