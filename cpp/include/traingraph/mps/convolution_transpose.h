// CNNConvolutionTranspose, the transposed convolution, with its gradient kernel and gradient state.
#pragma once

#include <memory>

#include <traingraph/mps/convolution.h>

namespace traingraph::mps {

class CNNConvolutionTranspose;

class TRAINGRAPH_API CNNConvolutionTransposeGradientState final
    : public CNNConvolutionGradientState {
 public:
  CNNConvolutionTransposeGradientState(const CNNConvolutionTranspose& kernel,
                                       ImageDescriptor source, const CommandBuffer* temporary_on);
  const char* kind() const override { return "MPSCNNConvolutionTransposeGradientState"; }
  const std::shared_ptr<const CNNConvolutionTranspose>& convolution_transpose() const {
    return kernel_;
  }
  void visit_owned(OwnershipVisitor& visitor) const override;
  const Offset& kernel_offset() const { return kernel_offset_; }

 private:
  friend class CNNConvolutionTranspose;
  std::shared_ptr<const CNNConvolutionTranspose> kernel_;
  Offset kernel_offset_;
};

// stride - 1 zeros between the source's pixels, then a convolution of stride 1 with the weights as
// they are. Its window begins at offset stride + kernel_offset - floor(extent / 2).
//
// The forms that return images undo a convolution and set the kernel offset. It is that of the
// state that is given, or one whose padding policy has the same alignment and the opposite size: of
// R rows the result has (R - 1) stride + extent by kSizeFull, (R - 1) stride + 2 - extent by
// kSizeValidOnly, and R stride by kSizeSame.
class TRAINGRAPH_API CNNConvolutionTranspose final : public WeightForwardKernel {
 public:
  CNNConvolutionTranspose(const Device& device, CNNConvolutionDataSourcePtr weights);
  const char* kind() const override { return "MPSCNNConvolutionTranspose"; }
  std::int64_t kernel_offset_x() const { return kernel_offset_.x; }
  std::int64_t kernel_offset_y() const { return kernel_offset_.y; }
  void set_kernel_offset_x(std::int64_t value) { set(kernel_offset_.x, value); }
  void set_kernel_offset_y(std::int64_t value) { set(kernel_offset_.y, value); }

  using CNNKernel::destination_image_descriptor;
  ImageDescriptor destination_image_descriptor(const ImageDescriptor& source) override;
  // Sets the kernel offset by a convolution's state; the size of its source, unless a user-defined
  // padding policy gives another one.
  ImageDescriptor mirror(const ImageBatch& sources, const StateBatch& convolution);
  using CNNKernel::encode_batch;
  // `states` is null where none are asked for.
  ImageBatch encode_batch(CommandBuffer& buffer, const ImageBatch& sources,
                          const StateBatch& convolution, StateBatch* states, bool temporary_states);

 protected:
  OperationPtr make_operation() const override;
  StatePtr make_state(const ImageDescriptor& source, const CommandBuffer* on) const override;
  const char* state_kind() const override { return "MPSCNNConvolutionTransposeGradientState"; }
  void record(CommandBuffer& buffer, const ImageBatch& sources, const StateBatch& states,
              const ImageBatch& destinations) override;

 private:
  Offset kernel_offset_;
};

// The secondary and the kernel offset are the forward kernel's two.
class TRAINGRAPH_API CNNConvolutionTransposeGradient final : public WeightGradientKernel {
 public:
  CNNConvolutionTransposeGradient(const Device& device, CNNConvolutionDataSourcePtr weights)
      : WeightGradientKernel(device, std::move(weights), "MPSCNNConvolutionTransposeGradient") {}
  const char* kind() const override { return "MPSCNNConvolutionTransposeGradient"; }

 protected:
  OperationPtr make_operation() const override;
  void configure(const GradientState& state) override;
  bool takes(const State& state) const override;
};

}  // namespace traingraph::mps
