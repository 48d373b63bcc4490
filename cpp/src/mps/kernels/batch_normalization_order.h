// BatchNormalizationSteps: the order of the four batch normalization kernels over one state, and
// the operands that each adds to a recording.
#pragma once

#include <cstdint>
#include <string>

#include <traingraph/mps/batch_normalization.h>

#include "mps/recording/image_parts.h"

namespace traingraph::mps {

struct BatchNormalizationSteps {
  // Elements per channel that count.
  static std::int64_t elements(const CNNBatchNormalizationState& state, const ImageBatch& images) {
    return images_in(images) * state.region_.height * state.region_.width;
  }
  static ImagePart part(const Region& region, const ChannelRange& channels) {
    return {{channels.offset, region.origin.y, region.origin.x},
            {channels.max_count, region.height, region.width},
            {region.height, region.width},
            {}};
  }
  static void add_parameters(Recording& r, const CNNBatchNormalizationState& state) {
    r.input(state.kernel_->buffers().gamma);
    r.input(state.kernel_->buffers().beta);
  }
  static void order(Recording& r, const CNNBatchNormalizationState& state) {
    for (const BufferRecord& buffer : state.counted_on_.buffers()) {
      r.comes_after(EncodedOn(buffer), state);
    }
  }
  static void add_statistics(Recording& r, const CNNBatchNormalizationState& state) {
    r.input(state.mean_->storage());
    r.input(state.variance_->storage());
    order(r, state);
  }
  static void add_gradients(Recording& r, const CNNBatchNormalizationState& state) {
    r.input(state.gradient_for_gamma_->storage());
    r.input(state.gradient_for_beta_->storage());
  }
  static double epsilon(const CNNBatchNormalizationState& state) {
    return static_cast<double>(state.kernel_->epsilon());
  }
  // What was counted and never ran.
  static bool is_incomplete(const CNNBatchNormalizationState& state) {
    return state.counted_on_.has(BufferFate::kDropped);
  }
  static constexpr const char* kIncomplete =
      "expected statistics and gradients that were committed but a command buffer with some of "
      "this state went without a commit; call reset()";
  // Nothing when all is in order.
  static std::string statistics_refused(const CNNBatchNormalizationState& state,
                                        const Region& region, const ChannelRange& channels) {
    if (is_incomplete(state)) return kIncomplete;
    if (state.counted_ > 0 && !(state.region_ == region && state.channels_ == channels)) {
      return "expected the channels, offset and clip rectangle of the statistics before but got "
             "others; call reset() for another batch";
    }
    if (!state.normalized_ && !state.gradient_was_encoded()) return "";
    return "expected statistics before the normalization of the batch but it was encoded; call "
           "reset() for another batch";
  }
  static std::string normalization_refused(const CNNBatchNormalizationState& state) {
    if (is_incomplete(state)) return kIncomplete;
    if (state.counted_ > 0) return "";
    return "expected a state with statistics but MPSCNNBatchNormalizationStatistics was not "
           "encoded";
  }
  static std::string statistics_gradient_refused(const CNNBatchNormalizationState& state,
                                                 std::int64_t more) {
    if (state.counted_ == 0 || is_incomplete(state)) return normalization_refused(state);
    if (state.counted_gradients_ + more <= state.counted_) return "";
    return "expected gradients for the images that the statistics were made of, " +
           std::to_string(state.counted_) + " elements per channel, but got " +
           std::to_string(state.counted_gradients_ + more);
  }
  static std::string gradient_refused(const CNNBatchNormalizationState& state) {
    if (state.counted_ == 0 || is_incomplete(state)) return normalization_refused(state);
    if (state.counted_gradients_ == state.counted_) return "";
    return "expected complete gradients of gamma and beta, over " + std::to_string(state.counted_) +
           " elements per channel, but MPSCNNBatchNormalizationStatisticsGradient was encoded "
           "for " +
           std::to_string(state.counted_gradients_);
  }
  static void count(const CommandBuffer& buffer, CNNBatchNormalizationState& state,
                    const ImageBatch& images, const Region& region, const ChannelRange& channels) {
    state.counted_on_.add(buffer.record());
    state.region_ = region;
    state.channels_ = channels;
    state.counted_ += elements(state, images);
  }
  // The statistics are of these channels.
  static std::string channels_refused(const CNNBatchNormalizationState& state, std::int64_t first) {
    if (state.channels_.offset == first) return "";
    return "expected the channels that the statistics were made of, from " +
           std::to_string(state.channels_.offset) + " on, but got those from " +
           std::to_string(first) + " on";
  }
  static const Region& region(const CNNBatchNormalizationState& state) { return state.region_; }
  static void count_gradients(const CommandBuffer& buffer, CNNBatchNormalizationState& state,
                              std::int64_t more) {
    state.counted_on_.add(buffer.record());
    state.counted_gradients_ += more;
  }
  static void normalize(CNNBatchNormalizationState& state) { state.normalized_ = true; }
  static std::int64_t counted(const CNNBatchNormalizationState& state) { return state.counted_; }
  static bool begins(const CNNBatchNormalizationState& state) {
    return state.counted_gradients_ == 0;
  }
  static void add_statistic_results(Recording& r, const CNNBatchNormalizationState& state) {
    r.result(state.mean_->storage());
    r.result(state.variance_->storage());
  }
  static void add_gradient_results(Recording& r, const CNNBatchNormalizationState& state) {
    r.result(state.gradient_for_gamma_->storage());
    r.result(state.gradient_for_beta_->storage());
  }
};

}  // namespace traingraph::mps
