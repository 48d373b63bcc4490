// CNNBatchNormalization: loads gamma, beta and statistics from data sources or states, and encodes
// the normalization.
#include <traingraph/mps/batch_normalization.h>

#include <traingraph/errors.h>

#include "mps/kernels/batch_normalization_order.h"
#include "mps/kernels/borrowed.h"
#include "mps/kernels/forms.h"
#include "mps/kernels/loaded_source.h"
#include "mps/kernels/normalization/batch_normalization_operations.h"

namespace traingraph::mps {

using Steps = BatchNormalizationSteps;

namespace {

class ReloadOperation final : public Operation {
 public:
  using Operation::Operation;
  bool aligns() const override { return true; }
  void emit(Emission& e) const override { e.set(0, e.inputs[0]); }
};

}  // namespace

// --- normalization -------------------------------------------------------------------------------

CNNBatchNormalization::CNNBatchNormalization(const Device& device,
                                             CNNBatchNormalizationDataSourcePtr source,
                                             NeuronDescriptor fused_neuron)
    : CNNKernel(device), source_(std::move(source)), neuron_(std::move(fused_neuron)) {
  if (source_ == nullptr) refuse("expected a data source but got none");
  check_neuron(neuron_, kind());
  channels_ = source_->number_of_feature_channels();
  if (channels_ < 1) {
    refuse("expected 1 channel or more but got " + std::to_string(channels_));
  }
  label = source_->label();
  epsilon_ = source_->epsilon();
  for (auto* storage : {&buffers_.gamma, &buffers_.beta, &buffers_.mean, &buffers_.variance}) {
    *storage = make_storage(device.state(), DataType::kFloat32, {channels_});
  }
  load(*source_, true, true);
}

void CNNBatchNormalization::load(CNNBatchNormalizationDataSource& source, bool gamma_and_beta,
                                 bool mean_and_variance) {
  while_loaded(source, kind(), [&] {
    std::vector<ChannelNumbers> numbers;
    if (gamma_and_beta) {
      numbers.push_back({"gamma", source.gamma(), 1, *buffers_.gamma});
      numbers.push_back({"beta", source.beta(), 0, *buffers_.beta});
    }
    if (mean_and_variance) {
      numbers.push_back({"mean", source.mean(), 0, *buffers_.mean});
      numbers.push_back({"variance", source.variance(), 1, *buffers_.variance});
    }
    write_all(numbers, kind());
  });
}

void CNNBatchNormalization::reload_gamma_and_beta_from_data_source() {
  check_channels(source_, channels_);
  load(*source_, true, false);
}

void CNNBatchNormalization::reload_mean_and_variance_from_data_source() {
  check_channels(source_, channels_);
  load(*source_, false, true);
}

void CNNBatchNormalization::reload(CNNBatchNormalizationDataSourcePtr source) {
  check_channels(source, channels_);
  load(*source, true, true);
  source_ = std::move(source);
}

void CNNBatchNormalization::reload(CommandBuffer& buffer, const std::shared_ptr<Storage>& to,
                                   const std::shared_ptr<Buffer>& from, const char* what) {
  if (from->length() != to->bytes()) {
    refuse_shape(std::string("expected ") + what + " of " + std::to_string(to->bytes()) +
                 " bytes but got " + std::to_string(from->length()));
  }
  // Plain bytes become what they are used as.
  if (from->storage()->data_type == DataType::kUInt8) {
    retype(*from->storage(), to->data_type, to->shape, to->layout);
  }
  static const auto operation = std::make_shared<ReloadOperation>("reload of batch normalization");
  Recording& recording = this->recording(buffer);
  recording.begin(operation);
  recording.input(from->storage());
  recording.result(to);
  recording.end();
}

void CNNBatchNormalization::reload_gamma_and_beta(CommandBuffer& buffer,
                                                  CNNNormalizationGammaAndBetaState& state) {
  check_state(state, buffer);
  reload(buffer, buffers_.gamma, state.gamma(), "gamma");
  reload(buffer, buffers_.beta, state.beta(), "beta");
  read(state);
}

void CNNBatchNormalization::reload_mean_and_variance(CommandBuffer& buffer,
                                                     CNNNormalizationMeanAndVarianceState& state) {
  check_state(state, buffer);
  reload(buffer, buffers_.mean, state.mean(), "mean");
  reload(buffer, buffers_.variance, state.variance(), "variance");
  read(state);
}

void CNNBatchNormalization::check_source(const ImageDescriptor& source) const {
  if (source.feature_channels == channels_) return;
  refuse_shape("expected source images of " + std::to_string(channels_) + " channels but got " +
               to_string(source));
}

OperationPtr CNNBatchNormalization::make_operation() const {
  return normalization_operation(description(), neuron_, static_cast<double>(epsilon_));
}

StatePtr CNNBatchNormalization::make_state(const ImageDescriptor& source,
                                           const CommandBuffer* on) const {
  return std::make_shared<CNNBatchNormalizationState>(*this, source, on);
}

void CNNBatchNormalization::encode_batch(CommandBuffer& buffer, const ImageBatch& sources,
                                         CNNBatchNormalizationState& state,
                                         const ImageBatch& destinations) {
  CNNKernel::encode_batch(buffer, sources, StateBatch{borrowed(state)}, destinations);
}

void CNNBatchNormalization::record(CommandBuffer& buffer, const ImageBatch& sources,
                                   const StateBatch& states, const ImageBatch& destinations) {
  CNNBatchNormalizationState* state = nullptr;
  if (!states.empty()) {
    state = static_cast<CNNBatchNormalizationState*>(states[0].get());
    std::string refused = Steps::normalization_refused(*state);
    if (refused.empty()) refused = Steps::channels_refused(*state, source_channels_.offset);
    if (!refused.empty()) refuse(refused);
  }
  Recording& recording = this->recording(buffer);
  recording.begin(operation());
  add_source(recording, sources);
  recording.input(buffers_.gamma);
  recording.input(buffers_.beta);
  if (state != nullptr) {
    Steps::add_statistics(recording, *state);
  } else {
    recording.input(buffers_.mean);
    recording.input(buffers_.variance);
  }
  add_destination(recording, sources, destinations);
  recording.end();
  if (state == nullptr) return;
  Steps::normalize(*state);
  state->update(window_);
  read(*states[0]);
}

}  // namespace traingraph::mps
