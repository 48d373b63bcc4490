// CNNConvolution and CNNFullyConnected with their gradient kernels, descriptors, states and data
// source. Weights are (O, kernel_height, kernel_width, I / groups), biases (O).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <traingraph/mps/neuron.h>
#include <traingraph/mps/source_numbers.h>

namespace traingraph::mps {

// Numbers per output channel: gamma (y - mean) / sqrt(variance + epsilon) + beta.
struct TRAINGRAPH_API InferenceNormalization {
  std::vector<float> mean, variance, gamma, beta;
  float epsilon = 0;
};

struct TRAINGRAPH_API CNNConvolutionDescriptor {
  std::int64_t kernel_width = 1;
  std::int64_t kernel_height = 1;
  std::int64_t input_feature_channels = 1;
  std::int64_t output_feature_channels = 1;
  std::int64_t stride_in_pixels_x = 1;
  std::int64_t stride_in_pixels_y = 1;
  std::int64_t groups = 1;
  std::int64_t dilation_rate_x = 1;
  std::int64_t dilation_rate_y = 1;
  NeuronDescriptor fused_neuron_descriptor;
  // Becomes part of the weights and biases whenever they are loaded from their source. May be null.
  std::shared_ptr<const InferenceNormalization> batch_normalization;
  // Every channel of the source has output / input channels of the result to itself; `groups` is 1.
  bool depth_wise = false;
  // r: pixel (y, x) of the result's channel c comes from pixel (y / r, x / r) of the convolution's
  // channel (r (y mod r) + x mod r) output / r^2 + c. There is no gradient of it.
  std::int64_t sub_pixel_scale_factor = 1;

  // Of channels that are apart from each other.
  std::int64_t all_groups() const { return depth_wise ? input_feature_channels : groups; }
  // Result channels per source channel of a depthwise convolution, 0 for others.
  std::int64_t channel_multiplier() const {
    const bool known = depth_wise && input_feature_channels > 0;
    return known ? output_feature_channels / input_feature_channels : 0;
  }
  std::int64_t result_channels() const {
    return output_feature_channels / (sub_pixel_scale_factor * sub_pixel_scale_factor);
  }
};

struct TRAINGRAPH_API CNNDepthWiseConvolutionDescriptor : CNNConvolutionDescriptor {
  CNNDepthWiseConvolutionDescriptor() { depth_wise = true; }
};
struct TRAINGRAPH_API CNNSubPixelConvolutionDescriptor : CNNConvolutionDescriptor {};

class CNNConvolutionGradientState;
class CNNConvolutionWeightsAndBiasesState;

// Where a convolution's weights come from. load() is called before numbers are read, purge() after.
// A kernel asks for descriptor and type once whenever it loads. Sizes and types of what follows are
// compared with these, and with the kernel's.
class TRAINGRAPH_API CNNConvolutionDataSource {
 public:
  virtual ~CNNConvolutionDataSource();
  // float32, or float64 for the reference implementation.
  virtual DataType data_type() const { return DataType::kFloat32; }
  virtual CNNConvolutionDescriptor descriptor() const = 0;
  // (O, kernel_height, kernel_width, I / groups)
  virtual SourceNumbers weights() const = 0;
  // (O), or none: no biases, and none to train
  virtual SourceNumbers bias_terms() const { return {}; }
  virtual bool load() { return true; }
  virtual void purge() {}
  virtual std::string label() const { return ""; }
  // Objects that a user-defined source keeps alive.
  virtual void visit_owned(OwnershipVisitor&) const {}
  // For the copy of a kernel, on this device; null: both have this one.
  virtual std::shared_ptr<CNNConvolutionDataSource> copy(const Device&) { return nullptr; }
  // Called by a graph that trains the weights. On the device: encodes the update; the new weights,
  // which may be `source` itself, or null for unchanged ones. On the CPU, after the run: whether
  // the graph shall load the source anew.
  virtual std::shared_ptr<CNNConvolutionWeightsAndBiasesState> update(
      CommandBuffer& buffer, const std::shared_ptr<CNNConvolutionGradientState>& gradient,
      const std::shared_ptr<CNNConvolutionWeightsAndBiasesState>& source);
  virtual bool update(const std::shared_ptr<CNNConvolutionGradientState>& gradient,
                      const std::shared_ptr<CNNConvolutionWeightsAndBiasesState>& source);
};
using CNNConvolutionDataSourcePtr = std::shared_ptr<CNNConvolutionDataSource>;

// Weights (O, kernel_height, kernel_width, I / groups) and biases (O) on a device.
class TRAINGRAPH_API CNNConvolutionWeightsAndBiasesState final : public State {
 public:
  CNNConvolutionWeightsAndBiasesState(const Device& device,
                                      const CNNConvolutionDescriptor& descriptor,
                                      DataType data_type = DataType::kFloat32);
  // Of a temporary state.
  CNNConvolutionWeightsAndBiasesState(const CommandBuffer& buffer,
                                      const CNNConvolutionDescriptor& descriptor,
                                      DataType data_type = DataType::kFloat32);
  // Over these buffers, which must have the sizes of the descriptor; biases may be null.
  CNNConvolutionWeightsAndBiasesState(std::shared_ptr<Buffer> weights,
                                      std::shared_ptr<Buffer> biases);
  const char* kind() const override { return "MPSCNNConvolutionWeightsAndBiasesState"; }
  const Buffer* first_buffer() const override { return weights_.get(); }
  const std::shared_ptr<Buffer>& weights() const { return weights_; }
  const std::shared_ptr<Buffer>& biases() const { return biases_; }

 private:
  std::shared_ptr<Buffer> weights_;
  std::shared_ptr<Buffer> biases_;
};

// The weights of one kernel, and what loading them means.
class TRAINGRAPH_API ConvolutionWeights {
 public:
  ConvolutionWeights(const Device& device, CNNConvolutionDataSourcePtr source, const char* kind);
  // Both raise ShapeError or DataTypeError where the source's sizes or type are not those of these
  // weights, and then change nothing.
  void load();
  void load(CNNConvolutionDataSourcePtr other);
  // Raises ShapeError unless the state has the sizes of these weights.
  void check(const CNNConvolutionWeightsAndBiasesState& state, const std::string& who) const;

  Device device;
  CNNConvolutionDataSourcePtr source;
  CNNConvolutionDescriptor descriptor;
  DataType data_type;
  std::shared_ptr<Storage> weights;
  std::shared_ptr<Storage> biases;  // zeros where the source has none

 private:
  // What a source of these sizes has, with the normalization of `theirs` folded in.
  void read(CNNConvolutionDataSource& from, const CNNConvolutionDescriptor& theirs);

  const char* kind_;
};

class CNNConvolution;

// Apple's raw values: (output channels, height, width, input channels of a group).
enum class CNNConvolutionWeightsLayout : int { kOHWI = 0 };

// One object for a whole batch.
class TRAINGRAPH_API CNNConvolutionGradientState : public GradientState {
 public:
  CNNConvolutionGradientState(const CNNConvolution& convolution, ImageDescriptor source,
                              const CommandBuffer* temporary_on);
  const char* kind() const override { return "MPSCNNConvolutionGradientState"; }
  const Buffer* first_buffer() const override { return weights_.get(); }
  // float32 (O, kernel_height, kernel_width, I / groups) and (O): sums over the batch.
  const std::shared_ptr<Buffer>& gradient_for_weights() const { return weights_; }
  const std::shared_ptr<Buffer>& gradient_for_biases() const { return biases_; }
  CNNConvolutionWeightsLayout gradient_for_weights_layout() const {
    return CNNConvolutionWeightsLayout::kOHWI;
  }
  // Null for that of a transposed one.
  const std::shared_ptr<const CNNConvolution>& convolution() const { return convolution_; }
  void visit_owned(OwnershipVisitor& visitor) const override;
  bool renew(const CommandBuffer& on, std::int64_t readings) override {
    return State::renew(on, readings, {&weights_, &biases_});
  }

 protected:
  CNNConvolutionGradientState(const Device& device, const CNNConvolutionDescriptor& descriptor,
                              DataType data_type, const KernelWindow& window,
                              ImageDescriptor source, const CommandBuffer* temporary_on);

 private:
  std::shared_ptr<const CNNConvolution> convolution_;
  std::shared_ptr<Buffer> weights_;
  std::shared_ptr<Buffer> biases_;
};

// A kernel with weights, and what loading, exporting and sharing them means.
class TRAINGRAPH_API WeightForwardKernel : public CNNKernel {
 public:
  const CNNConvolutionDescriptor& descriptor() const { return weights_.descriptor; }
  const CNNConvolutionDataSourcePtr& data_source() const { return weights_.source; }
  void visit_owned(OwnershipVisitor& visitor) const override {
    CNNKernel::visit_owned(visitor);
    visitor(weights_.source);
  }
  DataType data_type() const { return weights_.data_type; }
  bool has_biases() const;

  void reload_weights_and_biases_from_data_source() { weights_.load(); }
  void reload_weights_and_biases(CNNConvolutionDataSourcePtr source) {
    weights_.load(std::move(source));
  }
  void reload_weights_and_biases(CommandBuffer& buffer, CNNConvolutionWeightsAndBiasesState& state);
  std::shared_ptr<CNNConvolutionWeightsAndBiasesState> export_weights_and_biases(
      CommandBuffer& buffer);
  // The weights themselves, not a copy: encodings that write its buffers change the kernel. Its
  // biases are null where the kernel has none: none in its source, and none loaded since.
  std::shared_ptr<CNNConvolutionWeightsAndBiasesState> weights_state() const;
  bool is_result_state_reused_across_batch() const override { return true; }

 protected:
  friend class WeightGradientKernel;
  WeightForwardKernel(const Device& device, CNNConvolutionDataSourcePtr weights, const char* kind);
  void check_source(const ImageDescriptor& source) const override;
  std::int64_t result_channels(const ImageDescriptor&) const override {
    return weights_.descriptor.result_channels();
  }
  bool has_window() const override { return true; }
  void add_operands(Recording& recording) const override;

  ConvolutionWeights weights_;
};

// The window begins at offset - floor(extent / 2) + stride i, extent = (kernel - 1) dilation + 1;
// beyond the image are zeros.
class TRAINGRAPH_API CNNConvolution : public WeightForwardKernel {
 public:
  CNNConvolution(const Device& device, CNNConvolutionDataSourcePtr weights)
      : WeightForwardKernel(device, std::move(weights), "MPSCNNConvolution") {}
  const char* kind() const override { return "MPSCNNConvolution"; }
  using CNNKernel::destination_image_descriptor;
  ImageDescriptor destination_image_descriptor(const ImageDescriptor& source) override;

 protected:
  using WeightForwardKernel::WeightForwardKernel;
  OperationPtr make_operation() const override;
  StatePtr make_state(const ImageDescriptor& source, const CommandBuffer* on) const override;
  const char* state_kind() const override { return "MPSCNNConvolutionGradientState"; }
};

// A convolution whose kernel covers the image and gives one pixel.
class TRAINGRAPH_API CNNFullyConnected final : public CNNConvolution {
 public:
  CNNFullyConnected(const Device& device, CNNConvolutionDataSourcePtr weights);
  const char* kind() const override { return "MPSCNNFullyConnected"; }

 protected:
  OperationPtr make_operation() const override;
  void check_source(const ImageDescriptor& source) const override;
};

// Which gradients a convolution's gradient kernel computes; joined by |.
enum class CNNConvolutionGradientOption : int { kData = 1, kWeightsAndBias = 2, kAll = 3 };

// Weights and biases gradients are sums over the batch that overwrite those of the state.
class TRAINGRAPH_API WeightGradientKernel : public CNNGradientKernel {
 public:
  const CNNConvolutionDescriptor& descriptor() const { return weights_.descriptor; }
  const CNNConvolutionDataSourcePtr& data_source() const { return weights_.source; }
  void visit_owned(OwnershipVisitor& visitor) const override {
    CNNGradientKernel::visit_owned(visitor);
    visitor(weights_.source);
  }
  CNNConvolutionGradientOption gradient_option() const { return option_; }
  void set_gradient_option(CNNConvolutionGradientOption value);
  bool is_state_modified() const override { return option_ != CNNConvolutionGradientOption::kData; }

  void reload_weights_and_biases_from_data_source() { weights_.load(); }
  void reload_weights_and_biases(CommandBuffer& buffer, CNNConvolutionWeightsAndBiasesState& state);
  // From now on with the forward kernel's weights, which must have the sizes of its own.
  void share_weights(const WeightForwardKernel& forward);

 protected:
  WeightGradientKernel(const Device& device, CNNConvolutionDataSourcePtr weights, const char* kind);
  void check_gradient(const ImageDescriptor&, const ImageDescriptor&) const override;
  void add_operands(Recording& recording, const StateBatch& states) override;
  bool has_window() const override { return true; }
  bool has_gradient_offset() const override { return true; }

  ConvolutionWeights weights_;
  CNNConvolutionGradientOption option_ = CNNConvolutionGradientOption::kAll;
};

// dx by the kernel offset, dweights by the secondary offset. Does not read the forward result.
class TRAINGRAPH_API CNNConvolutionGradient : public WeightGradientKernel {
 public:
  CNNConvolutionGradient(const Device& device, CNNConvolutionDataSourcePtr weights)
      : CNNConvolutionGradient(device, std::move(weights), "MPSCNNConvolutionGradient") {}
  const char* kind() const override { return "MPSCNNConvolutionGradient"; }

 protected:
  using WeightGradientKernel::WeightGradientKernel;
  OperationPtr make_operation() const override;
  void configure(const GradientState& state) override;
  bool takes(const State& state) const override;
  virtual bool is_full() const { return false; }
};

class TRAINGRAPH_API CNNFullyConnectedGradient final : public CNNConvolutionGradient {
 public:
  CNNFullyConnectedGradient(const Device& device, CNNConvolutionDataSourcePtr weights)
      : CNNConvolutionGradient(device, std::move(weights), "MPSCNNFullyConnectedGradient") {}
  const char* kind() const override { return "MPSCNNFullyConnectedGradient"; }

 protected:
  bool is_full() const override { return true; }
};

}  // namespace traingraph::mps
