// States of batch normalization: their buffers per channel, checks of given buffers, and the
// defaults of a data source.
#include <limits>

#include <traingraph/errors.h>
#include <traingraph/mps/batch_normalization.h>

#include "mps/recording/owner_of.h"
#include "mps/recording/storage.h"

namespace traingraph::mps {
namespace {

std::shared_ptr<Buffer> channel_buffer(const Device& device, std::int64_t channels, DataType type,
                                       std::uint64_t owner) {
  StoragePtr storage = make_storage(device.state(), type, {channels});
  storage->owner = owner;
  return std::make_shared<Buffer>(std::move(storage));
}

}  // namespace

CNNBatchNormalizationDataSource::~CNNBatchNormalizationDataSource() = default;
float CNNBatchNormalizationDataSource::epsilon() const { return std::numeric_limits<float>::min(); }
std::shared_ptr<CNNNormalizationGammaAndBetaState>
CNNBatchNormalizationDataSource::update_gamma_and_beta(CommandBuffer&, const BatchState&) {
  return nullptr;
}
std::shared_ptr<CNNNormalizationMeanAndVarianceState>
CNNBatchNormalizationDataSource::update_mean_and_variance(CommandBuffer&, const BatchState&) {
  return nullptr;
}
bool CNNBatchNormalizationDataSource::update_gamma_and_beta(const BatchState&) { return false; }
bool CNNBatchNormalizationDataSource::update_mean_and_variance(const BatchState&) { return false; }

namespace {

std::shared_ptr<Buffer> temporary_buffer(const CommandBuffer& buffer, std::int64_t channels,
                                         const char* kind) {
  if (channels < 1) {
    throw InvalidArgument("[" + std::string(kind) + "] expected 1 channel or more but got " +
                          std::to_string(channels));
  }
  return channel_buffer(buffer.device(), channels, DataType::kFloat32, buffer.number());
}

// Two of the program's buffers, one number per channel each.
void check_pair(const std::shared_ptr<Buffer>& first, const std::shared_ptr<Buffer>& second,
                const char* kind, const char* what) {
  if (first == nullptr || second == nullptr) {
    throw InvalidArgument("[" + std::string(kind) + "] expected two buffers but got none");
  }
  check_one_device(*first, *second, kind);
  if (first->length() == second->length()) return;
  throw ShapeError("[" + std::string(kind) + "] expected " + what + " of as many bytes, " +
                   std::to_string(first->length()) + ", but got " +
                   std::to_string(second->length()));
}

}  // namespace

CNNNormalizationGammaAndBetaState::CNNNormalizationGammaAndBetaState(std::shared_ptr<Buffer> gamma,
                                                                     std::shared_ptr<Buffer> beta)
    : State(nullptr), gamma_(std::move(gamma)), beta_(std::move(beta)) {
  check_pair(gamma_, beta_, kind(), "gamma and beta");
}

CNNNormalizationGammaAndBetaState::CNNNormalizationGammaAndBetaState(const CommandBuffer& buffer,
                                                                     std::int64_t channels)
    : State(&buffer),
      gamma_(temporary_buffer(buffer, channels, kind())),
      beta_(temporary_buffer(buffer, channels, kind())) {}

CNNNormalizationMeanAndVarianceState::CNNNormalizationMeanAndVarianceState(
    const CommandBuffer& buffer, std::int64_t channels)
    : State(&buffer),
      mean_(temporary_buffer(buffer, channels, kind())),
      variance_(temporary_buffer(buffer, channels, kind())) {}

CNNNormalizationMeanAndVarianceState::CNNNormalizationMeanAndVarianceState(
    std::shared_ptr<Buffer> mean, std::shared_ptr<Buffer> variance)
    : State(nullptr), mean_(std::move(mean)), variance_(std::move(variance)) {
  check_pair(mean_, variance_, kind(), "mean and variance");
}

CNNBatchNormalizationState::CNNBatchNormalizationState(const CNNBatchNormalization& kernel,
                                                       ImageDescriptor source,
                                                       const CommandBuffer* temporary_on)
    : GradientState(kernel.window(), source, temporary_on),
      kernel_(owner_of<const CNNBatchNormalization>(kernel, kernel.description())) {
  const std::uint64_t owner = temporary_on == nullptr ? 0 : temporary_on->number();
  const std::int64_t channels = kernel.number_of_feature_channels();
  // Float buffers; float64 images have float64 statistics.
  const DataType type = data_type(source.channel_format) == DataType::kFloat64 ? DataType::kFloat64
                                                                               : DataType::kFloat32;
  // Gamma and beta are the kernel's own, as they are when they are read.
  gamma_ = std::make_shared<Buffer>(kernel.buffers().gamma);
  beta_ = std::make_shared<Buffer>(kernel.buffers().beta);
  mean_ = channel_buffer(kernel.device(), channels, type, owner);
  variance_ = channel_buffer(kernel.device(), channels, type, owner);
  gradient_for_gamma_ = channel_buffer(kernel.device(), channels, type, owner);
  gradient_for_beta_ = channel_buffer(kernel.device(), channels, type, owner);
}

void CNNBatchNormalizationState::visit_owned(OwnershipVisitor& visitor) const { visitor(kernel_); }

void CNNBatchNormalizationState::reset() {
  counted_ = counted_gradients_ = 0;
  normalized_ = false;
  counted_on_.forget();
  forget_batch();
}
std::string CNNBatchNormalizationState::other_batch_refused(const CommandBuffer&) const {
  return gradient_was_encoded() ? "a gradient kernel was encoded with" : "";
}
std::shared_ptr<Buffer> CNNBatchNormalizationState::gradient_for_gamma() const {
  return counted_gradients_ == 0 ? nullptr : gradient_for_gamma_;
}
std::shared_ptr<Buffer> CNNBatchNormalizationState::gradient_for_beta() const {
  return counted_gradients_ == 0 ? nullptr : gradient_for_beta_;
}

}  // namespace traingraph::mps
