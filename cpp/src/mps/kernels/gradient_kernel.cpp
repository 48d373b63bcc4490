// CNNGradientKernel: checks gradients, sources and states against each other, and records an
// encoding with the properties that the state sets.
#include <traingraph/mps/kernel.h>

#include "mps/recording/image_parts.h"
#include "mps/recording/recording.h"

namespace traingraph::mps {

bool CNNGradientKernel::takes(const State& state) const {
  return dynamic_cast<const GradientState*>(&state) != nullptr;
}

void CNNGradientKernel::configure(const GradientState& state) {
  KernelWindow window = window_;
  window.offset = state.window().offset;
  window.edge_mode = state.window().edge_mode;
  window.zero_pad_x = state.window().zero_pad_x;
  window.zero_pad_y = state.window().zero_pad_y;
  set(window_, window);
}

void CNNGradientKernel::check_gradient(const ImageDescriptor& gradient,
                                       const ImageDescriptor& source) const {
  if (gradient.height == source.height && gradient.width == source.width &&
      gradient.feature_channels == source.feature_channels) {
    return;
  }
  refuse_shape("expected source gradients " + to_string(source) + " but got " +
               to_string(gradient));
}

void CNNGradientKernel::check(CommandBuffer& buffer, const ImageBatch& gradients,
                              const ImageBatch& sources, const StateBatch& states,
                              std::int64_t there) const {
  recording(buffer);
  check_batch(gradients, "source gradients");
  check_batch(sources, "source images");
  if (images_in(gradients) != images_in(sources)) {
    refuse_shape("expected as many source images as source gradients, " +
                 std::to_string(images_in(gradients)) + ", but got " +
                 std::to_string(images_in(sources)));
  }
  if (!takes_parts()) refuse_parts();
  Offset primary = primary_offset_;
  if (takes_some_images()) primary.z = 0;
  if (!has_gradient_offset() && !(primary.is_zero() && kernel_offset_.is_zero())) {
    refuse_use("a primary offset or a kernel offset: the whole incoming gradient is read");
  }
  if (!has_kernel_offset() && !kernel_offset_.is_zero()) {
    refuse_use("a kernel offset: the secondary offset says where the windows are");
  }
  if (states.empty()) refuse("expected a gradient state but got none");
  const State* last = nullptr;  // one object may stand for all
  const bool shared = states.size() == 1 || states[0] == states.back();
  for (const StatePtr& state : states) {
    if (state != nullptr && state.get() == last) continue;
    last = state.get();
    if (state == nullptr || !takes(*state)) {
      refuse("expected a state of the forward kernel but got " +
             (state == nullptr ? "none" : state->description()));
    }
    check_state(*state, buffer);
    const auto& own = static_cast<const GradientState&>(*state);
    const ImageDescriptor& source = sources[0]->descriptor();
    const ImageDescriptor made_for = secondary_of(own);
    if (made_for.height != source.height || made_for.width != source.width ||
        made_for.feature_channels != source.feature_channels ||
        (shared && !takes_parts_of_batch() && made_for.number_of_images != there)) {
      refuse("expected " + state->description() + ", made for " + to_string(made_for) +
             ", with the batch it was made for but got " + to_string(for_batch(source, sources)));
    }
    if (&state != &states[0]) continue;
    const ImageDescriptor& gradient = gradients[0]->descriptor();
    const GradientParts parts = this->parts(gradient, source, own);
    check_gradient(as_seen(gradient, parts.gradient), as_seen(source, parts.secondary));
  }
  if (states.size() != 1 && states.size() != sources.size()) {
    refuse("expected one state per image, " + std::to_string(sources.size()) + ", but got " +
           std::to_string(states.size()));
  }
}

ImageDescriptor CNNGradientKernel::destination_image_descriptor(const ImageBatch& gradients,
                                                                const ImageBatch& sources,
                                                                const StateBatch& states) {
  check_batch(gradients, "source gradients");
  check_batch(sources, "source images");
  if (states.empty()) refuse("expected a gradient state but got none");
  if (states[0] == nullptr || !takes(*states[0])) {
    refuse("expected a state of the forward kernel but got none");
  }
  const auto& state = static_cast<const GradientState&>(*states[0]);
  configure(state);
  configure_parts(state);
  ImageDescriptor result = result_of(state);
  result.channel_format = unclamped(sources[0]->descriptor()).channel_format;
  result.number_of_images = images_in(sources);
  // Where images were left out, softmax's result may be among more or fewer than its source was.
  if (state.parts().images.count != 0) result.number_of_images = state.source().number_of_images;
  return result;
}

ImageBatch CNNGradientKernel::encode_batch(CommandBuffer& buffer, const ImageBatch& gradients,
                                           const ImageBatch& sources, const StateBatch& states) {
  recording(buffer);
  const ImageDescriptor result = destination_image_descriptor(gradients, sources, states);
  ImageBatch images = make_images(buffer, result, *this, sources);
  encode_batch(buffer, gradients, sources, states, images);
  return images;
}

void CNNGradientKernel::encode_batch(CommandBuffer& buffer, const ImageBatch& gradients,
                                     const ImageBatch& sources, const StateBatch& states,
                                     const ImageBatch& destinations) {
  recording(buffer);
  check_batch(gradients, "source gradients");
  check_batch(sources, "source images");
  check_batch(destinations, "destination gradients");
  const Neighbours written = written_images(destinations);
  const bool by_offset = takes_some_images() && (primary_offset_.z != 0 || window_.offset.z != 0);
  if (!by_offset && written.count == destinations[0]->descriptor().number_of_images) {
    encode_images(buffer, gradients, sources, states, destinations, images_in(sources));
  } else {
    if (!takes_some_images()) {
      refuse_use("a clip rectangle that leaves out images: encode a part of the batch");
    }
    if (gradients.size() != destinations.size() || sources.size() != destinations.size()) {
      refuse_shape("expected as many source gradients and images as destinations, " +
                   std::to_string(destinations.size()) + ", where images are left out but got " +
                   std::to_string(gradients.size()) + " and " + std::to_string(sources.size()));
    }
    encode_images(buffer,
                  some_of(gradients, {primary_offset_.z, written.count}, "source gradients"),
                  some_of(sources, {window_.offset.z, written.count}, "source images"), states,
                  some_of(destinations, written, "destination gradients"), images_in(sources));
  }
  read(gradients);
  read(sources);
  read_states(buffer, states);
}

void CNNGradientKernel::read_states(const CommandBuffer& buffer, const StateBatch& states) const {
  read(states);
  for (const StatePtr& state : states) {
    static_cast<GradientState&>(*state).encoded_gradient(buffer);
  }
}

void CNNGradientKernel::encode_images(CommandBuffer& buffer, const ImageBatch& gradients,
                                      const ImageBatch& sources, const StateBatch& states,
                                      const ImageBatch& destinations, std::int64_t there) {
  check(buffer, gradients, sources, states, there);
  const auto& state = static_cast<const GradientState&>(*states[0]);
  const GradientParts parts =
      this->parts(gradients[0]->descriptor(), sources[0]->descriptor(), state);
  ImageDescriptor expected = parts.result;
  expected.channel_format = sources[0]->descriptor().channel_format;
  expected.number_of_images = images_in(sources);
  ImageDescriptor got = for_batch(destinations[0]->descriptor(), destinations);
  got.channel_format = expected.channel_format;
  const bool whole = clip_.whole() && destination_channel_ == 0 &&
                     expected.feature_channels == result_of(state).feature_channels;
  if (whole ? !(got == expected) : got.number_of_images != expected.number_of_images) {
    refuse_shape("expected destination gradients " + to_string(expected) + " but got " +
                 to_string(got));
  }
  const ImagePart to = destination_part(destinations[0]->descriptor(), expected, false,
                                        clip_.whole() ? Offset{} : parts.first);
  Recording& recording = this->recording(buffer);
  recording.begin(operation());
  add_sources(recording, gradients, sources, parts);
  add_operands(recording, states);
  recording.result(destinations, to);
  recording.end();
}

}  // namespace traingraph::mps
