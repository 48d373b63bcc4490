// Batch normalization as four kernels over one CNNBatchNormalizationState: statistics,
// normalization, gradients of gamma and beta, gradient of the source.
#pragma once

#include <memory>
#include <string>

#include <traingraph/mps/neuron.h>
#include <traingraph/mps/source_numbers.h>

namespace traingraph::mps {

class CNNBatchNormalizationState;
class CNNNormalizationGammaAndBetaState;
class CNNNormalizationMeanAndVarianceState;

// Where gamma, beta and the statistics of inference come from: float32 (C), or none for factors and
// variances of 1, terms and means of 0. Sizes are compared whenever a kernel loads.
class TRAINGRAPH_API CNNBatchNormalizationDataSource {
 public:
  virtual ~CNNBatchNormalizationDataSource();
  virtual std::int64_t number_of_feature_channels() const = 0;
  virtual SourceNumbers gamma() const = 0;
  virtual SourceNumbers beta() const = 0;
  virtual SourceNumbers mean() const = 0;
  virtual SourceNumbers variance() const = 0;
  virtual bool load() { return true; }
  virtual void purge() {}
  virtual std::string label() const { return ""; }
  // Objects that a user-defined source keeps alive.
  virtual void visit_owned(OwnershipVisitor&) const {}
  // For the copy of a kernel, on this device; null: both have this one.
  virtual std::shared_ptr<CNNBatchNormalizationDataSource> copy(const Device&) { return nullptr; }
  // The smallest normal number unless the source says otherwise.
  virtual float epsilon() const;
  // Called by a graph that trains. On the device: each encodes its update; the new values, or null
  // for unchanged ones. On the CPU, after the run: whether the graph shall load them anew.
  using BatchState = std::shared_ptr<CNNBatchNormalizationState>;
  virtual std::shared_ptr<CNNNormalizationGammaAndBetaState> update_gamma_and_beta(
      CommandBuffer& buffer, const BatchState& state);
  virtual std::shared_ptr<CNNNormalizationMeanAndVarianceState> update_mean_and_variance(
      CommandBuffer& buffer, const BatchState& state);
  virtual bool update_gamma_and_beta(const BatchState& state);
  virtual bool update_mean_and_variance(const BatchState& state);
};
using CNNBatchNormalizationDataSourcePtr = std::shared_ptr<CNNBatchNormalizationDataSource>;

class TRAINGRAPH_API CNNNormalizationGammaAndBetaState final : public State {
 public:
  CNNNormalizationGammaAndBetaState(std::shared_ptr<Buffer> gamma, std::shared_ptr<Buffer> beta);
  // A temporary one.
  CNNNormalizationGammaAndBetaState(const CommandBuffer& buffer, std::int64_t channels);
  const char* kind() const override { return "MPSCNNNormalizationGammaAndBetaState"; }
  const Buffer* first_buffer() const override { return gamma_.get(); }
  const std::shared_ptr<Buffer>& gamma() const { return gamma_; }
  const std::shared_ptr<Buffer>& beta() const { return beta_; }

 private:
  std::shared_ptr<Buffer> gamma_;
  std::shared_ptr<Buffer> beta_;
};

class TRAINGRAPH_API CNNNormalizationMeanAndVarianceState final : public State {
 public:
  CNNNormalizationMeanAndVarianceState(std::shared_ptr<Buffer> mean,
                                       std::shared_ptr<Buffer> variance);
  // A temporary one.
  CNNNormalizationMeanAndVarianceState(const CommandBuffer& buffer, std::int64_t channels);
  const char* kind() const override { return "MPSCNNNormalizationMeanAndVarianceState"; }
  const Buffer* first_buffer() const override { return mean_.get(); }
  const std::shared_ptr<Buffer>& mean() const { return mean_; }
  const std::shared_ptr<Buffer>& variance() const { return variance_; }

 private:
  std::shared_ptr<Buffer> mean_;
  std::shared_ptr<Buffer> variance_;
};

class CNNBatchNormalization;

// One object for a whole batch, filled in four steps: Statistics for every part of the batch, then
// Normalization, then StatisticsGradient for every part, then Gradient. All buffers are (C).
class TRAINGRAPH_API CNNBatchNormalizationState final : public GradientState {
 public:
  CNNBatchNormalizationState(const CNNBatchNormalization& kernel, ImageDescriptor source,
                             const CommandBuffer* temporary_on);
  const char* kind() const override { return "MPSCNNBatchNormalizationState"; }
  const Buffer* first_buffer() const override { return mean_.get(); }
  // Forgets what was accumulated; what is encoded next begins anew.
  void reset();
  // Parts of one batch may be normalized by several buffers; statistics say when another begins.
  std::string other_batch_refused(const CommandBuffer& buffer) const override;
  const std::shared_ptr<Buffer>& gamma() const { return gamma_; }
  const std::shared_ptr<Buffer>& beta() const { return beta_; }
  const std::shared_ptr<Buffer>& mean() const { return mean_; }
  const std::shared_ptr<Buffer>& variance() const { return variance_; }
  // Null before StatisticsGradient was encoded.
  std::shared_ptr<Buffer> gradient_for_gamma() const;
  std::shared_ptr<Buffer> gradient_for_beta() const;
  const std::shared_ptr<const CNNBatchNormalization>& batch_normalization() const {
    return kernel_;
  }
  void visit_owned(OwnershipVisitor& visitor) const override;
  bool renew(const CommandBuffer& on, std::int64_t readings) override {
    return State::renew(on, readings,
                        {&mean_, &variance_, &gradient_for_gamma_, &gradient_for_beta_});
  }

 private:
  friend struct BatchNormalizationSteps;
  std::shared_ptr<const CNNBatchNormalization> kernel_;
  std::shared_ptr<Buffer> gamma_, beta_, mean_, variance_;
  std::shared_ptr<Buffer> gradient_for_gamma_, gradient_for_beta_;
  // Elements per channel that were accumulated, and images that were normalized since.
  std::int64_t counted_ = 0;
  std::int64_t counted_gradients_ = 0;
  EncodedOn counted_on_;
  bool normalized_ = false;
  // Which pixels and channels of each image the statistics were made of.
  Region region_;
  ChannelRange channels_;
};

// y = f(gamma (x - mean) / sqrt(variance + epsilon) + beta) with the state's statistics, or without
// a state with the kernel's own; f is the fused neuron.
class TRAINGRAPH_API CNNBatchNormalization final : public CNNKernel {
 public:
  CNNBatchNormalization(const Device& device, CNNBatchNormalizationDataSourcePtr source,
                        NeuronDescriptor fused_neuron = {});
  const char* kind() const override { return "MPSCNNBatchNormalization"; }
  std::int64_t number_of_feature_channels() const { return channels_; }
  float epsilon() const { return epsilon_; }
  void set_epsilon(float value) { set(epsilon_, value); }
  const CNNBatchNormalizationDataSourcePtr& data_source() const { return source_; }
  const NeuronDescriptor& fused_neuron_descriptor() const { return neuron_; }
  void visit_owned(OwnershipVisitor& visitor) const override {
    CNNKernel::visit_owned(visitor);
    visitor(source_);
  }

  using CNNKernel::encode_batch;
  void encode_batch(CommandBuffer& buffer, const ImageBatch& sources,
                    CNNBatchNormalizationState& state, const ImageBatch& destinations);

  // Each raises ShapeError or DataTypeError where the source has other sizes than the kernel, or
  // another type, and then changes nothing.
  void reload_gamma_and_beta_from_data_source();
  void reload_mean_and_variance_from_data_source();
  void reload(CNNBatchNormalizationDataSourcePtr source);
  void reload_gamma_and_beta(CommandBuffer& buffer, CNNNormalizationGammaAndBetaState& state);
  void reload_mean_and_variance(CommandBuffer& buffer, CNNNormalizationMeanAndVarianceState& state);
  bool is_result_state_reused_across_batch() const override { return true; }

  struct Buffers {
    std::shared_ptr<Storage> gamma, beta, mean, variance;
  };
  const Buffers& buffers() const { return buffers_; }

 protected:
  OperationPtr make_operation() const override;
  void check_source(const ImageDescriptor& source) const override;
  StatePtr make_state(const ImageDescriptor& source, const CommandBuffer* on) const override;
  const char* state_kind() const override { return "MPSCNNBatchNormalizationState"; }
  bool has_state_per_image() const override { return true; }
  void record(CommandBuffer& buffer, const ImageBatch& sources, const StateBatch& states,
              const ImageBatch& destinations) override;

 private:
  void load(CNNBatchNormalizationDataSource& source, bool gamma_and_beta, bool mean_and_variance);
  void reload(CommandBuffer& buffer, const std::shared_ptr<Storage>& to,
              const std::shared_ptr<Buffer>& from, const char* what);

  CNNBatchNormalizationDataSourcePtr source_;
  NeuronDescriptor neuron_;
  std::int64_t channels_ = 0;
  float epsilon_ = 0;
  Buffers buffers_;
};

// Adds the images to the mean and the biased variance of the state: the channels that are read, and
// as many pixels from the offset on as the clip rectangle has.
class TRAINGRAPH_API CNNBatchNormalizationStatistics final : public CNNKernel {
 public:
  explicit CNNBatchNormalizationStatistics(const Device& device) : CNNKernel(device) {}
  const char* kind() const override { return "MPSCNNBatchNormalizationStatistics"; }
  bool is_state_modified() const override { return true; }
  bool append_batch_barrier() const override { return true; }
  // The inherited forms raise Unsupported: there is no result image.
  void encode_batch(CommandBuffer& buffer, const ImageBatch& sources,
                    CNNBatchNormalizationState& state);

 protected:
  OperationPtr make_operation() const override;
  StatePtr make_state(const ImageDescriptor& source, const CommandBuffer* on) const override;
  void record(CommandBuffer& buffer, const ImageBatch& sources, const StateBatch& states,
              const ImageBatch& destinations) override;
};

// The two gradient kernels. The statistics say which pixels of the images count; the gradient that
// comes in is that of pixels among them, at the secondary offset.
class TRAINGRAPH_API BatchNormalizationGradientKernel : public CNNGradientKernel {
 public:
  const NeuronDescriptor& fused_neuron_descriptor() const { return neuron_; }

 protected:
  BatchNormalizationGradientKernel(const Device& device, NeuronDescriptor fused_neuron,
                                   const char* kind);
  bool takes(const State& state) const override;
  bool takes_parts_of_batch() const override { return true; }
  bool takes_some_images() const override { return false; }
  GradientParts parts(const ImageDescriptor& gradient, const ImageDescriptor& source,
                      const GradientState& state) const override;

  NeuronDescriptor neuron_;
};

// Adds to the state's gradients: beta sum g, gamma sum g x^, where g = dy f'(the normalized x) and
// x^ = (x - mean) / sqrt(variance + epsilon). They are complete when every image that the
// statistics were made of has been encoded.
class TRAINGRAPH_API CNNBatchNormalizationStatisticsGradient final
    : public BatchNormalizationGradientKernel {
 public:
  explicit CNNBatchNormalizationStatisticsGradient(const Device& device,
                                                   NeuronDescriptor fused_neuron = {})
      : BatchNormalizationGradientKernel(device, std::move(fused_neuron),
                                         "MPSCNNBatchNormalizationStatisticsGradient") {}
  const char* kind() const override { return "MPSCNNBatchNormalizationStatisticsGradient"; }
  bool is_state_modified() const override { return true; }
  bool append_batch_barrier() const { return true; }
  // The properties as they are. The inherited forms raise Unsupported: there is no result image.
  void encode_batch(CommandBuffer& buffer, const ImageBatch& gradients, const ImageBatch& sources,
                    CNNBatchNormalizationState& state);

 protected:
  OperationPtr make_operation() const override;
  void add_operands(Recording& recording, const StateBatch& states) override;
};

// dx = gamma / sqrt(variance + epsilon) (g - dbeta / M - x^ dgamma / M), M elements per channel in
// the whole batch. Raises InvalidArgument before the state's gradients are complete.
class TRAINGRAPH_API CNNBatchNormalizationGradient final : public BatchNormalizationGradientKernel {
 public:
  explicit CNNBatchNormalizationGradient(const Device& device, NeuronDescriptor fused_neuron = {})
      : BatchNormalizationGradientKernel(device, std::move(fused_neuron),
                                         "MPSCNNBatchNormalizationGradient") {}
  const char* kind() const override { return "MPSCNNBatchNormalizationGradient"; }
  // As the inherited forms, with the state that serves all images.
  using CNNGradientKernel::encode_batch;
  void encode_batch(CommandBuffer& buffer, const ImageBatch& gradients, const ImageBatch& sources,
                    CNNBatchNormalizationState& state, const ImageBatch& destinations);
  ImageBatch encode_batch(CommandBuffer& buffer, const ImageBatch& gradients,
                          const ImageBatch& sources, CNNBatchNormalizationState& state);

 protected:
  OperationPtr make_operation() const override;
  void add_operands(Recording& recording, const StateBatch& states) override;
};

}  // namespace traingraph::mps
