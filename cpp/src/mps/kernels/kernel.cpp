// Kernel and CNNKernel: checks of devices, batches and states, read counts, and the encoding of
// kernels with one source.
#include <traingraph/mps/kernel.h>

#include <traingraph/errors.h>

#include "mps/images/image_allocator.h"
#include "mps/kernels/named_kernel.h"
#include "mps/recording/image_parts.h"
#include "mps/recording/recording.h"

namespace traingraph::mps {

Kernel::~Kernel() = default;

std::string Kernel::description() const {
  return std::string(kind()) + (label.empty() ? "" : " '" + label + "'");
}

const OperationPtr& Kernel::operation() {
  if (operation_ == nullptr) {
    operation_ = make_operation();
    if (device_.state()->backend.traits().named_kernels) operation_->named = named_kernel(*this);
  }
  return operation_;
}

void Kernel::refuse(const std::string& text) const {
  throw InvalidArgument("[" + description() + "] " + text);
}
void Kernel::refuse_shape(const std::string& text) const {
  throw ShapeError("[" + description() + "] " + text);
}
void Kernel::refuse_use(const std::string& text) const {
  throw Unsupported("[" + description() + "] " + text);
}

Recording& Kernel::recording(CommandBuffer& buffer) const {
  if (!(buffer.device() == device_)) {
    refuse("expected a command buffer of device " + device_.name() + " but got one of " +
           buffer.device().name());
  }
  Recording* recording = buffer.recording();
  if (recording == nullptr) {
    refuse("expected a command buffer to encode to but got one that was committed");
  }
  return *recording;
}

void Kernel::check_device(const std::shared_ptr<Storage>& storage, const char* what) const {
  if (storage->device == device_.state()) return;
  refuse(std::string("expected ") + what + " of device " + device_.name() + " but got one of " +
         Buffer(storage).device().name());
}

namespace {

const char* name(ChannelFormat format) {
  switch (format) {
    case ChannelFormat::kUnorm8:
      return "unorm8";
    case ChannelFormat::kUnorm16:
      return "unorm16";
    default:
      return traingraph::name(data_type(format));
  }
}

}  // namespace

void Kernel::check_batch(const ImageBatch& batch, const char* what) const {
  if (batch.empty()) refuse(std::string("expected one or more ") + what + " but got none");
  for (const ImagePtr& image : batch) {
    if (image == nullptr) refuse(std::string("expected ") + what + " but got none in the batch");
    if (!(image->device() == device_)) {
      refuse(std::string("expected ") + what + " of device " + device_.name() + " but got " +
             image->description() + " of " + image->device().name());
    }
    if (image->is_temporary() && image->read_count() == 0) {
      refuse(std::string("expected ") + what + " with a read count above 0 but that of " +
             image->description() + " has run out; raise read_count before the last reading");
    }
    const ImageDescriptor &first = batch[0]->descriptor(), &other = image->descriptor();
    if (other == first) continue;
    if (other.channel_format != first.channel_format) {
      refuse_shape(std::string("expected ") + what + " of one format, " +
                   name(first.channel_format) + ", but got " + image->description() + " of " +
                   name(other.channel_format));
    }
    refuse_shape(std::string("expected ") + what + " of one size, " +
                 to_string(batch[0]->descriptor()) + ", but got " + image->description());
  }
}

void Kernel::check_state(const State& state, const CommandBuffer& buffer) const {
  if (const Buffer* first = state.first_buffer()) {
    check_device(first->storage(), state.kind());
  }
  if (state.is_temporary() && state.owner() != buffer.number()) {
    refuse("expected " + state.description() +
           " of this command buffer but got a temporary one of another");
  }
  if (state.is_temporary() && state.read_count() == 0) {
    refuse("expected a read count above 0 of " + state.description() +
           " but it has run out; raise read_count before the last reading");
  }
}

void Kernel::check_destination_state(const State& state, const CommandBuffer& buffer) const {
  check_state(state, buffer);
  const auto* own = dynamic_cast<const GradientState*>(&state);
  const std::string refused = own == nullptr ? "" : own->other_batch_refused(buffer);
  if (refused.empty()) return;
  refuse("expected a new state, for a state belongs to one batch, but got " + state.description() +
         ", which " + refused);
}

namespace {

// One reading of every different object; the first that has none left, or null.
template <class Batch>
const typename Batch::value_type::element_type* unreadable(const Batch& batch) {
  if (batch.size() == 1) return batch[0]->reads().read() ? nullptr : batch[0].get();
  const std::uint64_t round = ReadCount::next_round();
  for (const auto& one : batch) {
    if (one->reads().temporary && one->reads().first_in(round) && !one->reads().read()) {
      return one.get();
    }
  }
  return nullptr;
}

std::string no_reading_left(const std::string& who) {
  return "expected a read count above 0 of " + who +
         " but it has run out; raise read_count before the last reading";
}

}  // namespace

void Kernel::read(const ImageBatch& batch) const {
  if (const Image* image = unreadable(batch)) refuse(no_reading_left(image->description()));
}

void Kernel::read(const StateBatch& batch) const {
  if (const State* state = unreadable(batch)) refuse(no_reading_left(state->description()));
}

void Kernel::read(State& state) const {
  if (!state.reads().read()) refuse(no_reading_left(state.description()));
}

ImageBatch Kernel::make_images(CommandBuffer& buffer, const ImageDescriptor& descriptor,
                               const AllocatesImages& by, const ImageBatch& like) const {
  return allocated(buffer, descriptor, *by.image_allocator(), this, like.size() > 1);
}

void CNNKernel::visit_owned(OwnershipVisitor& visitor) const {
  visitor(padding_.own());
  visitor(image_allocator());
}

void CNNKernel::check_source(const ImageDescriptor&) const {}

ImageDescriptor CNNKernel::result_of(const ImageDescriptor& source) const {
  ImageDescriptor result = source;
  result.feature_channels = result_channels(source);
  return result;
}

StatePtr CNNKernel::make_state(const ImageDescriptor& source, const CommandBuffer* on) const {
  return std::make_shared<GradientState>(window_, source, on);
}

StateBatch CNNKernel::result_state_batch(const ImageBatch& sources,
                                         const CommandBuffer* temporary_on) const {
  check_batch(sources, "source images");
  check_source(seen(sources[0]->descriptor(), source_channels_));
  if (is_result_state_reused_across_batch()) {
    const ImageDescriptor source = for_batch(sources[0]->descriptor(), sources);
    return StateBatch(sources.size(), make_state(source, temporary_on));
  }
  StateBatch states;
  for (const ImagePtr& image : sources) {
    states.push_back(make_state(image->descriptor(), temporary_on));
  }
  return states;
}

void CNNKernel::check_destinations(const ImageBatch& sources,
                                   const ImageBatch& destinations) const {
  check_batch(destinations, "destination images");
  if (images_in(destinations) > images_in(sources)) {
    refuse_shape("expected as many source images as destinations, " +
                 std::to_string(images_in(destinations)) + ", but got " +
                 std::to_string(images_in(sources)));
  }
  if (is_partial()) return;  // checked where it is recorded
  const ImageDescriptor expected = result_of(sources[0]->descriptor());
  const ImageDescriptor& result = destinations[0]->descriptor();
  const bool size_fits =
      has_window() || (result.height == expected.height && result.width == expected.width);
  if (result.feature_channels == expected.feature_channels && size_fits) return;
  refuse_shape("expected destination images " +
               (has_window() ? "of " + std::to_string(expected.feature_channels) + " channels"
                             : to_string(expected)) +
               " but got " + destinations[0]->description());
}

void CNNKernel::record(CommandBuffer& buffer, const ImageBatch& sources, const StateBatch& states,
                       const ImageBatch& destinations) {
  Recording& recording = this->recording(buffer);
  recording.begin(operation());
  add_source(recording, sources);
  add_operands(recording);
  add_destination(recording, sources, destinations);
  recording.end();
  const State* last = nullptr;  // one object may stand for all
  for (const StatePtr& state : states) {
    if (state.get() == last) continue;
    last = state.get();
    auto* gradient_state = dynamic_cast<GradientState*>(state.get());
    if (gradient_state != nullptr) gradient_state->update(window_);
  }
}

void CNNKernel::encode_images(CommandBuffer& buffer, const ImageBatch& sources,
                              const StateBatch& states, const ImageBatch& destinations) {
  check_source(seen(sources[0]->descriptor(), source_channels_));
  check_destinations(sources, destinations);
  const State* last = nullptr;
  for (const StatePtr& state : states) {
    if (state == nullptr) refuse("expected a state but got none");
    if (std::string_view(state->kind()) != state_kind()) {
      refuse("expected an " + std::string(state_kind()) + " but got " + state->description());
    }
    if (state.get() != last) check_destination_state(*state, buffer);
    last = state.get();
  }
  if (!states.empty() && is_partial()) check_parts_have_gradient(sources[0]->descriptor());
  record(buffer, sources, states, destinations);
  set_parts(buffer, sources, states, destinations);
}

void CNNKernel::encode_batch(CommandBuffer& buffer, const ImageBatch& sources,
                             const StateBatch& states, const ImageBatch& destinations) {
  recording(buffer);
  check_batch(sources, "source images");
  check_batch(destinations, "destination images");
  const Neighbours written = written_images(destinations);
  const std::int64_t each = sources[0]->descriptor().number_of_images;
  const bool all = first_image() == 0 && images_in(destinations) % each == 0 &&
                   written.count == destinations[0]->descriptor().number_of_images;
  if (all) {
    // A source array may be longer than the batch.
    const auto used = static_cast<std::size_t>(images_in(destinations) / each);
    if (used >= sources.size()) {
      encode_images(buffer, sources, states, destinations);
      read(sources);
      return;
    }
    const ImageBatch front(sources.begin(), sources.begin() + static_cast<std::ptrdiff_t>(used));
    encode_images(buffer, front, states, destinations);
    read(front);
    return;
  }
  if (sources.size() != destinations.size()) {
    refuse_shape("expected as many source images as destinations, " +
                 std::to_string(destinations.size()) + ", where images are left out but got " +
                 std::to_string(sources.size()));
  }
  if (!states.empty() && has_state_per_image()) {
    refuse_use("a state where images are left out: encode a part of the batch");
  }
  const Neighbours from{first_image(), written.count};
  encode_images(buffer, some_of(sources, from, "source images"), states,
                some_of(destinations, written, "destination images"));
  set_images(states, from, destinations);
  read(sources);
}

void CNNKernel::encode_batch(CommandBuffer& buffer, const ImageBatch& sources,
                             const ImageBatch& destinations) {
  encode_batch(buffer, sources, StateBatch{}, destinations);
}

ImageBatch CNNKernel::encode_batch(CommandBuffer& buffer, const ImageBatch& sources) {
  recording(buffer);
  check_batch(sources, "source images");
  const ImageDescriptor result = destination_image_descriptor(sources);
  ImageBatch images = make_images(buffer, for_batch(result, sources), *this, sources);
  encode_batch(buffer, sources, StateBatch{}, images);
  return images;
}

ImageBatch CNNKernel::encode_batch(CommandBuffer& buffer, const ImageBatch& sources,
                                   StateBatch& states, bool temporary_states) {
  recording(buffer);
  check_batch(sources, "source images");
  const ImageDescriptor result = destination_image_descriptor(sources);
  states = result_state_batch(sources, temporary_states ? &buffer : nullptr);
  ImageBatch images = make_images(buffer, for_batch(result, sources), *this, sources);
  encode_batch(buffer, sources, states, images);
  return images;
}

}  // namespace traingraph::mps
