// A loss as separate forward and gradient kernels: NNForwardLoss, NNLossGradient and
// NNInitialGradient. CNNLoss (loss.h) computes both in one.
#pragma once

#include <traingraph/mps/arithmetic.h>
#include <traingraph/mps/loss.h>

namespace traingraph::mps {

// The loss as an image: one value per image, or without a reduction one per element.
class TRAINGRAPH_API NNForwardLoss final : public CNNKernel {
 public:
  NNForwardLoss(const Device& device, const CNNLossDescriptor& descriptor);
  const char* kind() const override { return "MPSNNForwardLoss"; }
  const CNNLossDescriptor& descriptor() const { return descriptor_; }
  void set_descriptor(const CNNLossDescriptor& value);
  // From now on the descriptor's weight is a number that programs read when they run: another one
  // compiles nothing.
  void set_running_weight(float value);

  // `weights` may be empty. The inherited forms, without labels, are refused.
  void encode_batch(CommandBuffer& buffer, const ImageBatch& predictions, const ImageBatch& labels,
                    const ImageBatch& weights, const StateBatch& states,
                    const ImageBatch& destinations);
  ImageBatch encode_batch(CommandBuffer& buffer, const ImageBatch& predictions,
                          const ImageBatch& labels, const ImageBatch& weights, StateBatch& states,
                          bool temporary_states);

 protected:
  OperationPtr make_operation() const override;
  ImageDescriptor result_of(const ImageDescriptor& source) const override;
  void record(CommandBuffer&, const ImageBatch&, const StateBatch&, const ImageBatch&) override;

 private:
  CNNLossDescriptor descriptor_;
  bool running_weight_ = false;
};

// The gradient of what NNForwardLoss gives, by the predictions or by the labels: the derivative of
// the loss times the gradient that comes in, which has the loss's size.
class TRAINGRAPH_API NNLossGradient final : public CNNBinaryKernel {
 public:
  NNLossGradient(const Device& device, const CNNLossDescriptor& descriptor);
  const char* kind() const override { return "MPSNNLossGradient"; }
  const CNNLossDescriptor& descriptor() const { return descriptor_; }
  void set_descriptor(const CNNLossDescriptor& value);
  void set_running_weight(float value);  // as the forward kernel's
  bool compute_label_gradients() const { return by_labels_; }
  void set_compute_label_gradients(bool value) { set(by_labels_, value); }
  // As CNNLoss's; gradients by labels are exact.
  bool header_formula() const { return header_formula_; }
  void set_header_formula(bool value);

  // The inherited forms, without labels, are refused.
  void encode_batch(CommandBuffer& buffer, const ImageBatch& gradients,
                    const ImageBatch& predictions, const ImageBatch& labels,
                    const ImageBatch& weights, const StateBatch& states,
                    const ImageBatch& destinations);
  ImageBatch encode_batch(CommandBuffer& buffer, const ImageBatch& gradients,
                          const ImageBatch& predictions, const ImageBatch& labels,
                          const ImageBatch& weights, const StateBatch& states);
  ImageDescriptor destination_image_descriptor(const ImageDescriptor& gradient,
                                               const ImageDescriptor& prediction) const override;

 protected:
  OperationPtr make_operation() const override;
  StatePtr make_state(const ImageDescriptor&, const ImageDescriptor&,
                      const CommandBuffer*) const override;
  void add_results(CommandBuffer&, Recording&, const StateBatch&,
                   const ImageDescriptor&) const override;

 private:
  CNNLossDescriptor descriptor_;
  bool by_labels_ = false;
  bool running_weight_ = false;
  bool header_formula_ = false;
};

// Ones, of the source's size: where a gradient begins.
class TRAINGRAPH_API NNInitialGradient final : public CNNKernel {
 public:
  explicit NNInitialGradient(const Device& device) : CNNKernel(device) {}
  const char* kind() const override { return "MPSNNInitialGradient"; }

 protected:
  OperationPtr make_operation() const override;
};

}  // namespace traingraph::mps
