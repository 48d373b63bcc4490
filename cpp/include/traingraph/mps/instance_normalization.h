// CNNInstanceNormalization and CNNGroupNormalization, their gradient kernels, states and data
// sources of gamma and beta.
#pragma once

#include <memory>
#include <string>

#include <traingraph/mps/batch_normalization.h>

namespace traingraph::mps {

// Where gamma and beta come from: float32 (C), or none for ones and zeros. Sizes are compared
// whenever a kernel loads.
class TRAINGRAPH_API CNNInstanceNormalizationDataSource {
 public:
  virtual ~CNNInstanceNormalizationDataSource();
  virtual std::int64_t number_of_feature_channels() const = 0;
  virtual SourceNumbers gamma() const = 0;
  virtual SourceNumbers beta() const = 0;
  virtual bool load() { return true; }
  virtual void purge() {}
  virtual std::string label() const { return ""; }
  // Objects that a user-defined source keeps alive.
  virtual void visit_owned(OwnershipVisitor&) const {}
  // For the copy of a kernel, on this device; null: both have this one.
  virtual std::shared_ptr<CNNInstanceNormalizationDataSource> copy(const Device&) {
    return nullptr;
  }
  // The smallest normal number unless the source says otherwise.
  virtual float epsilon() const;
  // Called by a graph that trains, with the state of each image, whose gradients it adds up. On the
  // device: encodes the update; the new values, or null for unchanged ones. On the CPU, after the
  // run: whether the graph shall load them anew.
  virtual std::shared_ptr<CNNNormalizationGammaAndBetaState> update_gamma_and_beta(
      CommandBuffer& buffer, const StateBatch& states);
  virtual bool update_gamma_and_beta(const StateBatch& states);
};
using CNNInstanceNormalizationDataSourcePtr = std::shared_ptr<CNNInstanceNormalizationDataSource>;

class TRAINGRAPH_API CNNGroupNormalizationDataSource : public CNNInstanceNormalizationDataSource {
 public:
  virtual std::int64_t number_of_groups() const = 0;
};
using CNNGroupNormalizationDataSourcePtr = std::shared_ptr<CNNGroupNormalizationDataSource>;

class CNNInstanceNormalization;

// One per image. The gradients are those of its image alone; whoever updates adds them up.
class TRAINGRAPH_API CNNInstanceNormalizationGradientState : public GradientState {
 public:
  CNNInstanceNormalizationGradientState(const CNNInstanceNormalization& kernel,
                                        ImageDescriptor source, const CommandBuffer* temporary_on);
  const char* kind() const override { return "MPSCNNInstanceNormalizationGradientState"; }
  const Buffer* first_buffer() const override { return gamma_.get(); }
  const std::shared_ptr<Buffer>& gamma() const { return gamma_; }
  const std::shared_ptr<Buffer>& beta() const { return beta_; }
  const std::shared_ptr<Buffer>& gradient_for_gamma() const { return gradient_for_gamma_; }
  const std::shared_ptr<Buffer>& gradient_for_beta() const { return gradient_for_beta_; }
  const std::shared_ptr<const CNNInstanceNormalization>& normalization() const { return kernel_; }
  void visit_owned(OwnershipVisitor& visitor) const override;

 private:
  std::shared_ptr<const CNNInstanceNormalization> kernel_;
  std::shared_ptr<Buffer> gamma_, beta_, gradient_for_gamma_, gradient_for_beta_;
};

class TRAINGRAPH_API CNNGroupNormalizationGradientState final
    : public CNNInstanceNormalizationGradientState {
 public:
  using CNNInstanceNormalizationGradientState::CNNInstanceNormalizationGradientState;
  const char* kind() const override { return "MPSCNNGroupNormalizationGradientState"; }
};

// y = gamma (x - mean) / sqrt(variance + epsilon) + beta, mean and biased variance over each
// channel of each image.
class TRAINGRAPH_API CNNInstanceNormalization : public CNNKernel {
 public:
  CNNInstanceNormalization(const Device& device, CNNInstanceNormalizationDataSourcePtr source);
  const char* kind() const override { return "MPSCNNInstanceNormalization"; }
  std::int64_t number_of_feature_channels() const { return channels_; }
  std::int64_t number_of_groups() const { return groups_; }
  float epsilon() const { return epsilon_; }
  void set_epsilon(float value) { set(epsilon_, value); }
  const CNNInstanceNormalizationDataSourcePtr& data_source() const { return source_; }
  void visit_owned(OwnershipVisitor& visitor) const override {
    CNNKernel::visit_owned(visitor);
    visitor(source_);
  }

  // Both raise ShapeError or DataTypeError where the source has other sizes than the kernel, or
  // another type, and then change nothing.
  void reload_gamma_and_beta_from_data_source();
  void reload_data_source(CNNInstanceNormalizationDataSourcePtr source);
  void reload_gamma_and_beta(CommandBuffer& buffer, CNNNormalizationGammaAndBetaState& state);

  struct Buffers {
    std::shared_ptr<Storage> gamma, beta;
  };
  const Buffers& buffers() const { return buffers_; }

 protected:
  // 0 groups: one per channel.
  CNNInstanceNormalization(const Device& device, CNNInstanceNormalizationDataSourcePtr source,
                           std::int64_t groups, const char* kind);
  OperationPtr make_operation() const override;
  void check_source(const ImageDescriptor& source) const override;
  StatePtr make_state(const ImageDescriptor& source, const CommandBuffer* on) const override;
  const char* state_kind() const override { return "MPSCNNInstanceNormalizationGradientState"; }
  bool has_state_per_image() const override { return true; }
  void add_operands(Recording& recording) const override;
  // Raises ShapeError unless it has as many groups.
  virtual void check_groups(const CNNInstanceNormalizationDataSource&) const {}

 private:
  void load(CNNInstanceNormalizationDataSource& source, const std::string& who);

  CNNInstanceNormalizationDataSourcePtr source_;
  std::int64_t channels_ = 0;
  std::int64_t groups_ = 0;
  float epsilon_ = 0;
  Buffers buffers_;
};

// The same over groups of neighbouring channels; gamma and beta are per channel.
class TRAINGRAPH_API CNNGroupNormalization final : public CNNInstanceNormalization {
 public:
  CNNGroupNormalization(const Device& device, const CNNGroupNormalizationDataSourcePtr& source);
  const char* kind() const override { return "MPSCNNGroupNormalization"; }

 protected:
  StatePtr make_state(const ImageDescriptor& source, const CommandBuffer* on) const override;
  const char* state_kind() const override { return "MPSCNNGroupNormalizationGradientState"; }
  void check_groups(const CNNInstanceNormalizationDataSource& source) const override;
};

// dx = (h - mean(h) - x^ mean(h x^)) / sqrt(variance + epsilon), h = gamma dy; gamma and beta's
// gradients go into the states. Gamma and epsilon are those of the state's kernel.
class TRAINGRAPH_API CNNInstanceNormalizationGradient : public CNNGradientKernel {
 public:
  explicit CNNInstanceNormalizationGradient(const Device& device) : CNNGradientKernel(device) {}
  const char* kind() const override { return "MPSCNNInstanceNormalizationGradient"; }
  bool is_state_modified() const override { return true; }

 protected:
  OperationPtr make_operation() const override;
  bool takes(const State& state) const override;
  void add_operands(Recording& recording, const StateBatch& states) override;
  bool takes_some_images() const override { return false; }
};

class TRAINGRAPH_API CNNGroupNormalizationGradient final : public CNNInstanceNormalizationGradient {
 public:
  using CNNInstanceNormalizationGradient::CNNInstanceNormalizationGradient;
  const char* kind() const override { return "MPSCNNGroupNormalizationGradient"; }

 protected:
  bool takes(const State& state) const override;
};

}  // namespace traingraph::mps
