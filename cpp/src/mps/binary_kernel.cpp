#include <traingraph/mps/arithmetic.h>

#include "mps/image_parts.h"

// What every kernel with two sources has.
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
  Recording& recording = this->recording(buffer);
  check_batch(primaries, "primary images");
  check_batch(secondaries, "secondary images");
  check_batch(destinations, "destination images");
  if (images_in(primaries) != images_in(secondaries)) {
    refuse_shape("expected as many secondary images as primary ones, " +
                 std::to_string(images_in(primaries)) + ", but got " +
                 std::to_string(images_in(secondaries)));
  }
  const ImageDescriptor result = result_of(primaries, secondaries);
  ImageDescriptor got = destinations[0]->descriptor();
  got.channel_format = result.channel_format;
  got.number_of_images = result.number_of_images;  // counted together below
  const bool whole = !ClippedKernel::is_partial();
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
    check_state(*state, buffer);
  }
  if (!states.empty()) refuse_parts();
  const ImagePart to = destination_part(destinations[0]->descriptor(), result, false, {});
  recording.begin(operation());
  const auto input = [&recording, this](const ImageBatch& sources, const ChannelRange& channels) {
    if (channels.whole()) return recording.input(sources);
    recording.input(sources, channels_of(seen(sources[0]->descriptor(), channels), channels));
  };
  input(primaries, primary_channels_);
  input(secondaries, secondary_channels_);
  if (whole) {
    recording.result(destinations);
  } else {
    recording.result(destinations, to);
  }
  add_results(buffer, recording, states, result);
  recording.end();
  read(primaries);
  read(secondaries);
}

ImageDescriptor CNNBinaryKernel::result_of(const ImageBatch& primaries,
                                           const ImageBatch& secondaries) const {
  return destination_image_descriptor(seen(primaries[0]->descriptor(), primary_channels_),
                                      seen(secondaries[0]->descriptor(), secondary_channels_));
}

ImageBatch CNNBinaryKernel::returned_images(CommandBuffer& buffer, const ImageBatch& primaries,
                                            const ImageBatch& secondaries) {
  write_everything();
  ImageDescriptor result = result_of(primaries, secondaries);
  result.number_of_images = images_in(primaries);
  return make_images(buffer, result, makes_temporary_images, primaries);
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
