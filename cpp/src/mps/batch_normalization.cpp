#include <traingraph/mps/batch_normalization.h>

#include <cstring>

#include <traingraph/errors.h>

#include "mps/batch_normalization_operations.h"
#include "mps/forms.h"

namespace traingraph::mps {
namespace {

std::uint64_t as_bits(double value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

class ReloadOperation final : public Operation {
 public:
  using Operation::Operation;
  bool aligns() const override { return true; }
  void emit(Emission& e) const override { e.set(0, e.inputs[0]); }
};

}  // namespace

// The order of the four kernels over one state, and what each adds to a recording.
struct BatchNormalizationSteps {
  static std::int64_t elements(const ImageBatch& images) {
    const ImageDescriptor& d = images[0]->descriptor();
    return static_cast<std::int64_t>(images.size()) * d.number_of_images * d.height * d.width;
  }
  static void add_parameters(Recording& r, const CNNBatchNormalizationState& state) {
    r.input(state.kernel_->buffers().gamma);
    r.input(state.kernel_->buffers().beta);
  }
  static void add_statistics(Recording& r, const CNNBatchNormalizationState& state) {
    r.input(state.mean_->storage());
    r.input(state.variance_->storage());
  }
  static void add_gradients(Recording& r, const CNNBatchNormalizationState& state) {
    r.input(state.gradient_for_gamma_->storage());
    r.input(state.gradient_for_beta_->storage());
  }
  static double epsilon(const CNNBatchNormalizationState& state) {
    return static_cast<double>(state.kernel_->epsilon());
  }
  // Nothing when all is in order.
  static std::string statistics_refused(const CNNBatchNormalizationState& state) {
    if (!state.normalized_) return "";
    return "expected statistics before the normalization of the batch but it was encoded; call "
           "reset() for another batch";
  }
  static std::string normalization_refused(const CNNBatchNormalizationState& state) {
    if (state.counted_ > 0) return "";
    return "expected a state with statistics but MPSCNNBatchNormalizationStatistics was not "
           "encoded";
  }
  static std::string statistics_gradient_refused(const CNNBatchNormalizationState& state,
                                                 std::int64_t more) {
    if (state.counted_ == 0) return normalization_refused(state);
    if (state.counted_gradients_ + more <= state.counted_) return "";
    return "expected gradients for the images that the statistics were made of, " +
           std::to_string(state.counted_) + " elements per channel, but got " +
           std::to_string(state.counted_gradients_ + more);
  }
  static std::string gradient_refused(const CNNBatchNormalizationState& state) {
    if (state.counted_ == 0) return normalization_refused(state);
    if (state.counted_gradients_ == state.counted_) return "";
    return "expected complete gradients of gamma and beta, over " + std::to_string(state.counted_) +
           " elements per channel, but MPSCNNBatchNormalizationStatisticsGradient was encoded "
           "for " +
           std::to_string(state.counted_gradients_);
  }
  static void count(CNNBatchNormalizationState& state, std::int64_t more) {
    state.counted_ += more;
  }
  static void count_gradients(CNNBatchNormalizationState& state, std::int64_t more) {
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
using Steps = BatchNormalizationSteps;

namespace {

StatePtr borrowed(State& state) { return {std::shared_ptr<State>(), &state}; }

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
  reload_gamma_and_beta_from_data_source();
  reload_mean_and_variance_from_data_source();
}

void CNNBatchNormalization::reload_gamma_and_beta_from_data_source() {
  if (!source_->load()) refuse("expected the data source to load but its load() said no");
  write_channels(*buffers_.gamma, source_->gamma(), 1);
  write_channels(*buffers_.beta, source_->beta(), 0);
  source_->purge();
}

void CNNBatchNormalization::reload_mean_and_variance_from_data_source() {
  if (!source_->load()) refuse("expected the data source to load but its load() said no");
  write_channels(*buffers_.mean, source_->mean(), 0);
  write_channels(*buffers_.variance, source_->variance(), 1);
  source_->purge();
}

void CNNBatchNormalization::reload(CNNBatchNormalizationDataSourcePtr source) {
  if (source == nullptr) refuse("expected a data source but got none");
  if (source->number_of_feature_channels() != channels_) {
    refuse_shape("expected a data source of " + std::to_string(channels_) + " channels but got " +
                 std::to_string(source->number_of_feature_channels()));
  }
  source_ = std::move(source);
  reload_gamma_and_beta_from_data_source();
  reload_mean_and_variance_from_data_source();
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
}

void CNNBatchNormalization::reload_mean_and_variance(CommandBuffer& buffer,
                                                     CNNNormalizationMeanAndVarianceState& state) {
  check_state(state, buffer);
  reload(buffer, buffers_.mean, state.mean(), "mean");
  reload(buffer, buffers_.variance, state.variance(), "variance");
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
    refuse_parts();  // the statistics are those of whole images
    state = dynamic_cast<CNNBatchNormalizationState*>(states[0].get());
    if (state == nullptr) {
      refuse("expected an MPSCNNBatchNormalizationState but got " + states[0]->description());
    }
    const std::string refused = Steps::normalization_refused(*state);
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
  read(StateBatch{states[0]});
}

// --- statistics ----------------------------------------------------------------------------------

OperationPtr CNNBatchNormalizationStatistics::make_operation() const {
  return statistics_operation(description());
}

void CNNBatchNormalizationStatistics::encode_batch(CommandBuffer& buffer, const ImageBatch& sources,
                                                   CNNBatchNormalizationState& state) {
  Recording& recording = this->recording(buffer);
  check_batch(sources, "source images");
  check_state(state, buffer);
  const std::int64_t channels = state.batch_normalization()->number_of_feature_channels();
  if (sources[0]->descriptor().feature_channels != channels) {
    refuse_shape("expected source images of " + std::to_string(channels) + " channels but got " +
                 sources[0]->description());
  }
  const std::string refused = Steps::statistics_refused(state);
  if (!refused.empty()) refuse(refused);
  recording.begin(operation());
  recording.input(sources);
  Steps::add_parameters(recording, state);
  if (Steps::counted(state) > 0) Steps::add_statistics(recording, state);
  recording.constant(static_cast<std::uint64_t>(Steps::counted(state)));
  recording.constant(as_bits(Steps::epsilon(state)));
  Steps::add_statistic_results(recording, state);
  recording.end();
  Steps::count(state, Steps::elements(sources));
  read(sources);
  read(StateBatch{borrowed(state)});
}

// --- gradients -----------------------------------------------------------------------------------

CNNBatchNormalizationStatisticsGradient::CNNBatchNormalizationStatisticsGradient(
    const Device& device, NeuronDescriptor fused_neuron)
    : Kernel(device), neuron_(std::move(fused_neuron)) {
  check_neuron(neuron_, kind());
}
OperationPtr CNNBatchNormalizationStatisticsGradient::make_operation() const {
  return statistics_gradient_operation(description(), neuron_);
}

void CNNBatchNormalizationStatisticsGradient::encode_batch(CommandBuffer& buffer,
                                                           const ImageBatch& gradients,
                                                           const ImageBatch& sources,
                                                           CNNBatchNormalizationState& state) {
  Recording& recording = this->recording(buffer);
  check_batch(gradients, "source gradients");
  check_batch(sources, "source images");
  check_state(state, buffer);
  if (!(gradients[0]->descriptor() == sources[0]->descriptor()) ||
      gradients.size() != sources.size()) {
    refuse_shape("expected as many source gradients of the source images' size, " +
                 to_string(sources[0]->descriptor()) + ", but got " + gradients[0]->description());
  }
  if (sources[0]->descriptor().feature_channels !=
      state.batch_normalization()->number_of_feature_channels()) {
    refuse_shape("expected source images of the state's channels but got " +
                 sources[0]->description());
  }
  if (!(neuron_ == state.batch_normalization()->fused_neuron_descriptor())) {
    refuse("expected the fused neuron of the forward kernel but got another one");
  }
  const std::string refused = Steps::statistics_gradient_refused(state, Steps::elements(sources));
  if (!refused.empty()) refuse(refused);
  recording.begin(operation());
  recording.input(gradients);
  recording.input(sources);
  Steps::add_parameters(recording, state);
  Steps::add_statistics(recording, state);
  if (!Steps::begins(state)) Steps::add_gradients(recording, state);
  recording.constant(Steps::begins(state) ? 1 : 0);
  recording.constant(as_bits(Steps::epsilon(state)));
  Steps::add_gradient_results(recording, state);
  recording.end();
  Steps::count_gradients(state, Steps::elements(sources));
  read(gradients);
  read(sources);
  read(StateBatch{borrowed(state)});
}

CNNBatchNormalizationGradient::CNNBatchNormalizationGradient(const Device& device,
                                                             NeuronDescriptor fused_neuron)
    : CNNGradientKernel(device), neuron_(std::move(fused_neuron)) {
  check_neuron(neuron_, kind());
}
OperationPtr CNNBatchNormalizationGradient::make_operation() const {
  return normalization_gradient_operation(description(), neuron_);
}
bool CNNBatchNormalizationGradient::takes(const State& state) const {
  return dynamic_cast<const CNNBatchNormalizationState*>(&state) != nullptr;
}

void CNNBatchNormalizationGradient::encode_batch(CommandBuffer& buffer, const ImageBatch& gradients,
                                                 const ImageBatch& sources,
                                                 CNNBatchNormalizationState& state,
                                                 const ImageBatch& destinations) {
  Recording& recording = this->recording(buffer);
  refuse_parts();
  check_batch(gradients, "source gradients");
  check_batch(sources, "source images");
  check_batch(destinations, "destination gradients");
  check_state(state, buffer);
  check_gradient(gradients[0]->descriptor(), sources[0]->descriptor());
  check_gradient(destinations[0]->descriptor(), sources[0]->descriptor());
  if (gradients.size() != sources.size() || destinations.size() != sources.size()) {
    refuse_shape("expected as many gradients and destinations as source images, " +
                 std::to_string(sources.size()) + ", but got " + std::to_string(gradients.size()) +
                 " and " + std::to_string(destinations.size()));
  }
  if (!(neuron_ == state.batch_normalization()->fused_neuron_descriptor())) {
    refuse("expected the fused neuron of the forward kernel but got another one");
  }
  const std::string refused = Steps::gradient_refused(state);
  if (!refused.empty()) refuse(refused);
  recording.begin(operation());
  recording.input(gradients);
  recording.input(sources);
  Steps::add_parameters(recording, state);
  Steps::add_statistics(recording, state);
  Steps::add_gradients(recording, state);
  recording.constant(static_cast<std::uint64_t>(Steps::counted(state)));
  recording.constant(as_bits(Steps::epsilon(state)));
  recording.result(destinations);
  recording.end();
  read(gradients);
  read(sources);
  read(StateBatch{borrowed(state)});
}

ImageBatch CNNBatchNormalizationGradient::encode_batch(CommandBuffer& buffer,
                                                       const ImageBatch& gradients,
                                                       const ImageBatch& sources,
                                                       CNNBatchNormalizationState& state) {
  recording(buffer);
  check_batch(sources, "source images");
  ImageDescriptor result = sources[0]->descriptor();
  result.number_of_images *= static_cast<std::int64_t>(sources.size());
  ImageBatch images = make_images(buffer, result, makes_temporary_images, sources);
  encode_batch(buffer, gradients, sources, state, images);
  return images;
}

}  // namespace traingraph::mps
