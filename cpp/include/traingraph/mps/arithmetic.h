#pragma once

#include <limits>
#include <memory>

#include <traingraph/mps/kernel.h>

namespace traingraph::mps {

enum class CNNArithmeticOperation : int { kAdd, kSubtract, kMultiply, kDivide, kCompare };

// Apple's raw values.
enum class NNComparisonType : int {
  kEqual = 0,
  kNotEqual = 1,
  kLess = 2,
  kLessOrEqual = 3,
  kGreater = 4,
  kGreaterOrEqual = 5,
};

// 0 along an axis: the source's first element stands for all of them.
struct TRAINGRAPH_API BroadcastStrides {
  std::int64_t x = 1;
  std::int64_t y = 1;
  std::int64_t feature_channels = 1;
  bool operator==(const BroadcastStrides&) const = default;
};

struct TRAINGRAPH_API CNNArithmeticParameters {
  float primary_scale = 1;
  float secondary_scale = 1;
  float bias = 0;
  float minimum_value = -std::numeric_limits<float>::max();
  float maximum_value = std::numeric_limits<float>::max();
  BroadcastStrides primary_strides;
  BroadcastStrides secondary_strides;
  // Of a comparison, which gives 1 or 0. Equal are a and b with |a - b| <= threshold, so infinities
  // are not; less and greater are those that are not equal. A NaN is different from everything.
  NNComparisonType comparison = NNComparisonType::kEqual;
  float threshold = 0;
  bool operator==(const CNNArithmeticParameters&) const = default;
  bool clamps() const;
};

// What the gradient kernel of one source has of the forward kernel's: its own source's scale first,
// negated for a subtrahend, and the strides of the other one.
TRAINGRAPH_API CNNArithmeticParameters gradient_parameters(CNNArithmeticOperation operation,
                                                           CNNArithmeticParameters forward,
                                                           bool is_secondary_source_filter);

// Made by a forward kernel for one pair of images. Where the result was clamped it holds where not.
class TRAINGRAPH_API CNNArithmeticGradientState final : public GradientState {
 public:
  CNNArithmeticGradientState(CNNArithmeticOperation operation,
                             const CNNArithmeticParameters& parameters,
                             const ImageDescriptor& primary, const ImageDescriptor& secondary,
                             const CommandBuffer* temporary_on);
  const char* kind() const override { return "MPSCNNArithmeticGradientState"; }
  CNNArithmeticOperation operation() const { return operation_; }
  const CNNArithmeticParameters& parameters() const { return parameters_; }
  const ImageDescriptor& primary() const { return source(); }
  const ImageDescriptor& secondary() const { return secondary_; }
  // 1 where the result is inside of its bounds; null without bounds or before the encoding.
  const ImagePtr& mask() const { return mask_; }

 private:
  friend class CNNArithmetic;
  CNNArithmeticOperation operation_;
  CNNArithmeticParameters parameters_;
  ImageDescriptor secondary_;
  ImagePtr mask_;
};

// Two source images, one result image. Parts of images only without states.
class TRAINGRAPH_API CNNBinaryKernel : public TwoSourceKernel {
 public:
  bool makes_temporary_images = true;

  void encode_batch(CommandBuffer& buffer, const ImageBatch& primaries,
                    const ImageBatch& secondaries, const StateBatch& states,
                    const ImageBatch& destinations);
  ImageBatch encode_batch(CommandBuffer& buffer, const ImageBatch& primaries,
                          const ImageBatch& secondaries);
  // Makes the states too.
  ImageBatch encode_batch(CommandBuffer& buffer, const ImageBatch& primaries,
                          const ImageBatch& secondaries, StateBatch& states, bool temporary_states);
  StateBatch result_state_batch(const ImageBatch& primaries, const ImageBatch& secondaries,
                                const CommandBuffer* temporary_on) const;
  virtual bool is_result_state_reused_across_batch() const { return false; }
  virtual bool append_batch_barrier() const { return false; }
  virtual ImageDescriptor destination_image_descriptor(const ImageDescriptor& primary,
                                                       const ImageDescriptor& secondary) const = 0;

 protected:
  explicit CNNBinaryKernel(const Device& device) : TwoSourceKernel(device) {}
  virtual StatePtr make_state(const ImageDescriptor& primary, const ImageDescriptor& secondary,
                              const CommandBuffer* on) const = 0;
  // What the states get beside the result.
  virtual void add_results(CommandBuffer&, Recording&, const StateBatch&,
                           const ImageDescriptor&) const {}

 private:
  // Of the channels that are read.
  ImageDescriptor result_of(const ImageBatch& primaries, const ImageBatch& secondaries) const;
  // Of the whole batch. Sets what is written to everything.
  ImageBatch returned_images(CommandBuffer& buffer, const ImageBatch& primaries,
                             const ImageBatch& secondaries);
};

// y = clamp((primary_scale a) op (secondary_scale b) + bias, minimum_value, maximum_value)
class TRAINGRAPH_API CNNArithmetic : public CNNBinaryKernel {
 public:
  CNNArithmetic(const Device& device, CNNArithmeticOperation operation)
      : CNNBinaryKernel(device), operation_(operation) {}
  const char* kind() const override;
  CNNArithmeticOperation arithmetic() const { return operation_; }
  const CNNArithmeticParameters& parameters() const { return parameters_; }
  void set_parameters(const CNNArithmeticParameters& value);
  ImageDescriptor destination_image_descriptor(const ImageDescriptor& primary,
                                               const ImageDescriptor& secondary) const override;

 protected:
  OperationPtr make_operation() const override;
  StatePtr make_state(const ImageDescriptor& primary, const ImageDescriptor& secondary,
                      const CommandBuffer* on) const override;
  void add_results(CommandBuffer& buffer, Recording& recording, const StateBatch& states,
                   const ImageDescriptor& result) const override;

 private:
  CNNArithmeticOperation operation_;
  CNNArithmeticParameters parameters_;
};

// The gradient of one of the two sources; the secondary image is the other one. Sums over every
// axis along which the source was broadcast; nothing flows where the result was clamped.
//   add, subtract: primary_scale dy; multiply: primary_scale dy secondary_scale other
// The forms that return images set scales and strides from the state, the sign of a subtrahend
// included; the bias and the bounds say nothing here.
class TRAINGRAPH_API CNNArithmeticGradient : public CNNGradientKernel {
 public:
  CNNArithmeticGradient(const Device& device, CNNArithmeticOperation operation,
                        bool is_secondary_source_filter);
  const char* kind() const override;
  bool is_secondary_source_filter() const { return secondary_; }
  // `secondary_strides` are those of the secondary image in the forward kernel.
  const CNNArithmeticParameters& parameters() const { return parameters_; }
  void set_parameters(const CNNArithmeticParameters& value);

 protected:
  OperationPtr make_operation() const override;
  void configure(const GradientState& state) override;
  bool takes(const State& state) const override;
  void check_gradient(const ImageDescriptor&, const ImageDescriptor&) const override {}
  ImageDescriptor secondary_of(const GradientState& state) const override;
  ImageDescriptor result_of(const GradientState& state) const override;
  bool takes_parts() const override { return false; }
  void add_operands(Recording& recording, const StateBatch& states) override;

 private:
  CNNArithmeticOperation operation_;
  bool secondary_;
  CNNArithmeticParameters parameters_;
};

}  // namespace traingraph::mps
