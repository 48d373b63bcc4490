// CNNArithmetic (add, subtract, multiply, divide, compare) over two images with broadcast strides,
// its gradient kernel and state, and CNNBinaryKernel, the base class of kernels with two sources.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

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

// 0 along an axis: one element of the source, the first or that of the offset, stands for all.
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
  // Raises InvalidArgument unless strides are 0 or 1.
  void check(const std::string& who) const;
};

// What the gradient kernel of one source has of the forward kernel's: its own source's scale first,
// negated for a subtrahend, and the strides of the other one.
TRAINGRAPH_API CNNArithmeticParameters gradient_parameters(CNNArithmeticOperation operation,
                                                           CNNArithmeticParameters forward,
                                                           bool is_secondary_source_filter);

// What was read of one source: channels, and pixels from the offset on.
struct TRAINGRAPH_API SourcePart {
  ChannelRange channels;
  Offset offset;
};

// What a gradient kernel needs to know of a forward one with two sources.
class TRAINGRAPH_API NNBinaryGradientState : public GradientState {
 public:
  NNBinaryGradientState(const ImageDescriptor& primary, const ImageDescriptor& secondary,
                        const CommandBuffer* temporary_on)
      : GradientState({}, primary, temporary_on), secondary_(secondary) {}
  const char* kind() const override { return "MPSNNBinaryGradientState"; }
  const ImageDescriptor& primary() const { return source(); }
  const ImageDescriptor& secondary() const { return secondary_; }
  const SourcePart& primary_part() const { return primary_part_; }
  const SourcePart& secondary_part() const { return secondary_part_; }

 private:
  friend class CNNBinaryKernel;
  ImageDescriptor secondary_;
  SourcePart primary_part_, secondary_part_;
};

// Made by a forward kernel for one pair of images. Where the result was clamped it holds where not.
class TRAINGRAPH_API CNNArithmeticGradientState final : public NNBinaryGradientState {
 public:
  CNNArithmeticGradientState(CNNArithmeticOperation operation,
                             const CNNArithmeticParameters& parameters,
                             const ImageDescriptor& primary, const ImageDescriptor& secondary,
                             const CommandBuffer* temporary_on)
      : NNBinaryGradientState(primary, secondary, temporary_on),
        operation_(operation),
        parameters_(parameters) {}
  const char* kind() const override { return "MPSCNNArithmeticGradientState"; }
  CNNArithmeticOperation operation() const { return operation_; }
  const CNNArithmeticParameters& parameters() const { return parameters_; }
  // 1 where the result is inside of its bounds; null without bounds or before the encoding.
  const ImagePtr& mask() const { return mask_; }

 private:
  friend class CNNArithmetic;
  CNNArithmeticOperation operation_;
  CNNArithmeticParameters parameters_;
  ImagePtr mask_;
};

struct BinaryParts;

// Two source images, one result image.
class TRAINGRAPH_API CNNBinaryKernel : public TwoSourceKernel, public AllocatesImages {
 public:
  // The source's pixel of the first one that is written; z: of an object with several images the
  // first that is read. The forms that return images set both to 0.
  const Offset& primary_offset() const { return primary_offset_; }
  void set_primary_offset(const Offset& value) { primary_offset_ = value; }
  const Offset& secondary_offset() const { return secondary_offset_; }
  void set_secondary_offset(const Offset& value) { secondary_offset_ = value; }
  // Sizes are those of the sources unless a user-defined policy says other ones.
  const PaddingPolicy& padding() const { return padding_; }
  void set_padding(PaddingPolicy value) { padding_ = std::move(value); }
  void visit_owned(OwnershipVisitor& visitor) const override;

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
  // By the padding policy, which is called if it is user-defined; sets both offsets, and what is
  // written to everything.
  ImageDescriptor sized_result(const ImageBatch& primaries, const ImageBatch& secondaries);
  virtual ImageDescriptor destination_image_descriptor(const ImageDescriptor& primary,
                                                       const ImageDescriptor& secondary) const = 0;

 protected:
  explicit CNNBinaryKernel(const Device& device) : TwoSourceKernel(device) {}
  virtual StatePtr make_state(const ImageDescriptor& primary, const ImageDescriptor& secondary,
                              const CommandBuffer* on) const = 0;
  // What the states get beside the result.
  virtual void add_results(CommandBuffer&, Recording&, const StateBatch&,
                           const ImageDescriptor&) const {}
  virtual BroadcastStrides strides(bool /*secondary*/) const { return {}; }
  // What is read of the sources, and where the result goes.
  virtual BinaryParts parts(const ImageBatch& primaries, const ImageBatch& secondaries,
                            const ImageBatch& destinations) const;
  bool is_partial() const override {
    return TwoSourceKernel::is_partial() || !primary_offset_.is_zero() ||
           !secondary_offset_.is_zero();
  }

  Offset primary_offset_, secondary_offset_;

 private:
  void encode_images(CommandBuffer& buffer, const ImageBatch& primaries,
                     const ImageBatch& secondaries, const StateBatch& states,
                     const ImageBatch& destinations);
  // Of the channels that are read.
  ImageDescriptor result_of(const ImageBatch& primaries, const ImageBatch& secondaries) const;
  // Of the whole batch.
  ImageBatch returned_images(CommandBuffer& buffer, const ImageBatch& primaries,
                             const ImageBatch& secondaries);

  PaddingPolicy padding_;
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
  BroadcastStrides strides(bool secondary) const override {
    return secondary ? parameters_.secondary_strides : parameters_.primary_strides;
  }

 private:
  CNNArithmeticOperation operation_;
  CNNArithmeticParameters parameters_;
};

// The gradient of one of the two sources; the secondary image is the other one. Sums over every
// axis along which the source was broadcast; nothing flows where the result was clamped.
//   add, subtract: primary_scale dy; multiply: primary_scale dy secondary_scale other
// The forms that return images set scales and strides from the state, the sign of a subtrahend
// included; the bias and the bounds say nothing here. The secondary offset and channels are those
// of the secondary image in the forward kernel; the state says which part of its own source was
// read.
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
  void configure_parts(const GradientState& state) override;
  GradientParts parts(const ImageDescriptor& gradient, const ImageDescriptor& other,
                      const GradientState& state) const override;
  ImageDescriptor secondary_of(const GradientState& state) const override;
  ImageDescriptor result_of(const GradientState& state) const override;
  void add_operands(Recording& recording, const StateBatch& states) override;
  bool takes_some_images() const override { return false; }

 private:
  const SourcePart& own_part(const CNNArithmeticGradientState& state) const;

  CNNArithmeticOperation operation_;
  bool secondary_;
  CNNArithmeticParameters parameters_;
};

}  // namespace traingraph::mps
