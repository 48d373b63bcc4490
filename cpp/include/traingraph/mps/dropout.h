// CNNDropout, its gradient kernel, and the state by which the gradient kernel finds the mask of the
// forward kernel.
#pragma once

#include <memory>
#include <vector>

#include <traingraph/mps/kernel.h>

namespace traingraph::mps {

// By axis: 1, or 0: one decision for all elements along it.
struct TRAINGRAPH_API MaskStride {
  std::int64_t x = 1;
  std::int64_t y = 1;
  std::int64_t channels = 1;
};

struct TRAINGRAPH_API DropoutParameters {
  float keep_probability = 0.5f;
  std::uint64_t seed = 0;
  std::int64_t mask_stride_x = 1;
  std::int64_t mask_stride_y = 1;
  std::int64_t mask_stride_channels = 1;
  bool operator==(const DropoutParameters&) const = default;
};

class DropoutEncoding;

// Which of the masks of its kernel an image got. Masks are a function of seed, step and element: on
// a backend that encodes Apple's kernels by name another one than elsewhere.
class TRAINGRAPH_API CNNDropoutGradientState final : public GradientState {
 public:
  CNNDropoutGradientState(const Device& device, const DropoutParameters& parameters,
                          const ImageDescriptor& source, const CommandBuffer* temporary_on)
      : GradientState({}, source, temporary_on), device_(device), parameters_(parameters) {}
  const char* kind() const override { return "MPSCNNDropoutGradientState"; }
  // One byte per element of the mask, in the order rows, columns, channels: 1 where it keeps. For
  // an encoding that nobody has asked before, the kernel runs once more, over ones. Raises
  // InvalidArgument before the forward kernel was encoded with this state, unless it is set.
  std::vector<std::uint8_t> mask_data() const;
  // The mask that the forward kernel takes in place of one of its own, and its gradient kernel with
  // it: another program's, in the same order, other numbers than 0 keep. An addition to Apple's
  // state. Raises InvalidArgument for another length, and once the state was encoded.
  void set_mask_data(const std::vector<std::uint8_t>& bytes);

  const DropoutParameters& parameters() const { return parameters_; }
  bool encoded() const;
  std::int64_t step() const;
  std::int64_t image() const { return image_; }  // its place among those encoded together
  std::int64_t images() const;                   // how many were
  // What was set, 0 or 1; null: the kernel's own.
  const ImagePtr& mask() const { return mask_; }

 private:
  friend class CNNDropout;
  // Of the decisions for its images, as one image.
  ImageDescriptor mask_descriptor() const;

  Device device_;
  DropoutParameters parameters_;
  ImagePtr mask_;
  std::shared_ptr<DropoutEncoding> encoding_;  // null before
  std::int64_t image_ = 0;
};

// y = x / keep_probability with that probability, else 0. Each encoding has another mask.
class TRAINGRAPH_API CNNDropout final : public CNNKernel {
 public:
  CNNDropout(const Device& device, const DropoutParameters& parameters);
  const char* kind() const override { return "MPSCNNDropout"; }
  const DropoutParameters& parameters() const { return parameters_; }

 protected:
  OperationPtr make_operation() const override;
  StatePtr make_state(const ImageDescriptor& source, const CommandBuffer* on) const override;
  const char* state_kind() const override { return "MPSCNNDropoutGradientState"; }
  void record(CommandBuffer& buffer, const ImageBatch& sources, const StateBatch& states,
              const ImageBatch& destinations) override;
  bool has_state_per_image() const override { return true; }

 private:
  DropoutParameters parameters_;
  std::int64_t steps_ = 0;
};

// dx = dy mask / keep_probability, by the state's mask. The states must be neighbours in the batch
// that was encoded forward.
class TRAINGRAPH_API CNNDropoutGradient final : public CNNGradientKernel {
 public:
  CNNDropoutGradient(const Device& device, const DropoutParameters& parameters);
  const char* kind() const override { return "MPSCNNDropoutGradient"; }
  const DropoutParameters& parameters() const { return parameters_; }

 protected:
  OperationPtr make_operation() const override;
  bool takes(const State& state) const override;
  void add_operands(Recording& recording, const StateBatch& states) override;
  bool takes_some_images() const override { return false; }

 private:
  DropoutParameters parameters_;
};

}  // namespace traingraph::mps
