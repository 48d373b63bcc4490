// CNNBatchNormalizationStatistics and the two gradient kernels: checks of sources and of their
// order over one state, and their encodings.
#include <algorithm>
#include <bit>

#include <traingraph/mps/batch_normalization.h>

#include "mps/kernels/batch_normalization_order.h"
#include "mps/kernels/borrowed.h"
#include "mps/kernels/forms.h"
#include "mps/kernels/normalization/batch_normalization_operations.h"
#include "mps/recording/distances.h"

namespace traingraph::mps {

using Steps = BatchNormalizationSteps;

// --- statistics ----------------------------------------------------------------------------------

OperationPtr CNNBatchNormalizationStatistics::make_operation() const {
  return statistics_operation(description());
}
StatePtr CNNBatchNormalizationStatistics::make_state(const ImageDescriptor&,
                                                     const CommandBuffer*) const {
  refuse_use("a state: MPSCNNBatchNormalization makes it");
}
void CNNBatchNormalizationStatistics::record(CommandBuffer&, const ImageBatch&, const StateBatch&,
                                             const ImageBatch&) {
  refuse_use("a result image: only encode_batch with a batch_normalization_state");
}

void CNNBatchNormalizationStatistics::encode_batch(CommandBuffer& buffer, const ImageBatch& sources,
                                                   CNNBatchNormalizationState& state) {
  Recording& recording = this->recording(buffer);
  check_batch(sources, "source images");
  check_state(state, buffer);
  if (destination_channel_ != 0) {
    refuse_use("a destination channel offset: there is no result image");
  }
  const std::int64_t channels = state.batch_normalization()->number_of_feature_channels();
  const ImageDescriptor used = seen(sources[0]->descriptor(), source_channels_);
  if (used.feature_channels != channels) {
    refuse_shape("expected source images of " + std::to_string(channels) + " channels but got " +
                 sources[0]->description());
  }
  if (clip_.depth < used.number_of_images || clip_.origin.z != 0 || window_.offset.z != 0) {
    refuse_use("a clip rectangle or an offset that leaves out images: encode a part of the batch");
  }
  Region region{window_.offset, std::min(clip_.width, along(used.width, -1, window_.offset.x)),
                std::min(clip_.height, along(used.height, -1, window_.offset.y)), 1};
  if (region.origin.x < 0 || region.origin.y < 0 || region.width < 1 || region.height < 1) {
    refuse_shape("expected an offset within source images " + to_string(used) + " but got column " +
                 std::to_string(region.origin.x) + ", row " + std::to_string(region.origin.y));
  }
  const ChannelRange range{source_channels_.offset, channels};
  const std::string refused = Steps::statistics_refused(state, region, range);
  if (!refused.empty()) refuse(refused);
  recording.begin(operation());
  recording.input(sources, Steps::part(region, range));
  Steps::add_parameters(recording, state);
  if (Steps::counted(state) > 0) Steps::add_statistics(recording, state);
  recording.constant(static_cast<std::uint64_t>(Steps::counted(state)));
  recording.constant(std::bit_cast<std::uint64_t>(Steps::epsilon(state)));
  Steps::add_statistic_results(recording, state);
  recording.end();
  Steps::count(buffer, state, sources, region, range);
  read(sources);
  read(state);
}

// --- gradients -----------------------------------------------------------------------------------

BatchNormalizationGradientKernel::BatchNormalizationGradientKernel(const Device& device,
                                                                   NeuronDescriptor fused_neuron,
                                                                   const char* kind)
    : CNNGradientKernel(device), neuron_(std::move(fused_neuron)) {
  check_neuron(neuron_, kind);
}

bool BatchNormalizationGradientKernel::takes(const State& state) const {
  return dynamic_cast<const CNNBatchNormalizationState*>(&state) != nullptr;
}

// Both images as the statistics have seen them; the result is that of the whole source.
GradientParts BatchNormalizationGradientKernel::parts(const ImageDescriptor& gradient,
                                                      const ImageDescriptor& source,
                                                      const GradientState& state) const {
  const auto& own = static_cast<const CNNBatchNormalizationState&>(state);
  const ImageDescriptor used = seen(source, secondary_channels_);
  const std::int64_t channels = own.batch_normalization()->number_of_feature_channels();
  if (used.feature_channels != channels) {
    refuse_shape("expected source images of the state's channels, " + std::to_string(channels) +
                 ", but got " + to_string(source));
  }
  std::string refused = Steps::normalization_refused(own);
  if (refused.empty()) refused = Steps::channels_refused(own, secondary_channels_.offset);
  if (refused.empty() && !(neuron_ == own.batch_normalization()->fused_neuron_descriptor())) {
    refused = "expected the fused neuron of the forward kernel but got another one";
  }
  if (!refused.empty()) refuse(refused);
  const Region& region = Steps::region(own);
  GradientParts parts{incoming(gradient, state),
                      Steps::part(region, {secondary_channels_.offset, channels}),
                      used,
                      {}};
  check_inside(parts.secondary, source, "source images");
  const bool clipped = state.parts().clip_width != 0;
  if (clipped) parts.first = window_.offset;
  const bool all = region.height == source.height && region.width == source.width;
  if (clipped || !all) {
    put(parts.gradient, region.height, region.width,
        {along(parts.first.x, -1, region.origin.x), along(parts.first.y, -1, region.origin.y), 0});
  }
  return parts;
}

OperationPtr CNNBatchNormalizationStatisticsGradient::make_operation() const {
  return statistics_gradient_operation(description(), neuron_);
}
void CNNBatchNormalizationStatisticsGradient::add_operands(Recording& recording,
                                                           const StateBatch&) {
  recording.cancel();
  refuse_use("a result image: only encode_batch with a batch_normalization_state");
}

void CNNBatchNormalizationStatisticsGradient::encode_batch(CommandBuffer& buffer,
                                                           const ImageBatch& gradients,
                                                           const ImageBatch& sources,
                                                           CNNBatchNormalizationState& state) {
  const StateBatch states{borrowed(state)};
  if (ClippedKernel::is_partial()) {
    refuse_use("a clip rectangle or a destination channel offset: there is no result image");
  }
  check(buffer, gradients, sources, states, images_in(sources));
  const std::int64_t more = Steps::elements(state, sources);
  const std::string refused = Steps::statistics_gradient_refused(state, more);
  if (!refused.empty()) refuse(refused);
  Recording& recording = this->recording(buffer);
  recording.begin(operation());
  add_sources(recording, gradients, sources,
              parts(gradients[0]->descriptor(), sources[0]->descriptor(), state));
  Steps::add_parameters(recording, state);
  Steps::add_statistics(recording, state);
  if (!Steps::begins(state)) Steps::add_gradients(recording, state);
  recording.constant(Steps::begins(state) ? 1 : 0);
  recording.constant(std::bit_cast<std::uint64_t>(Steps::epsilon(state)));
  Steps::add_gradient_results(recording, state);
  recording.end();
  Steps::count_gradients(buffer, state, more);
  read(gradients);
  read(sources);
  read_states(buffer, states);
}

OperationPtr CNNBatchNormalizationGradient::make_operation() const {
  return normalization_gradient_operation(description(), neuron_);
}

void CNNBatchNormalizationGradient::add_operands(Recording& recording, const StateBatch& states) {
  const auto& state = static_cast<const CNNBatchNormalizationState&>(*states[0]);
  const std::string refused = Steps::gradient_refused(state);
  if (!refused.empty()) {
    recording.cancel();
    refuse(refused);
  }
  Steps::add_parameters(recording, state);
  Steps::add_statistics(recording, state);
  Steps::add_gradients(recording, state);
  const Offset& origin = Steps::region(state).origin;
  recording.constant(static_cast<std::uint64_t>(Steps::counted(state)));
  recording.constant(std::bit_cast<std::uint64_t>(Steps::epsilon(state)));
  recording.constant(static_cast<std::uint64_t>(origin.y));
  recording.constant(static_cast<std::uint64_t>(origin.x));
}

void CNNBatchNormalizationGradient::encode_batch(CommandBuffer& buffer, const ImageBatch& gradients,
                                                 const ImageBatch& sources,
                                                 CNNBatchNormalizationState& state,
                                                 const ImageBatch& destinations) {
  encode_batch(buffer, gradients, sources, StateBatch{borrowed(state)}, destinations);
}

ImageBatch CNNBatchNormalizationGradient::encode_batch(CommandBuffer& buffer,
                                                       const ImageBatch& gradients,
                                                       const ImageBatch& sources,
                                                       CNNBatchNormalizationState& state) {
  return encode_batch(buffer, gradients, sources, StateBatch{borrowed(state)});
}

}  // namespace traingraph::mps
