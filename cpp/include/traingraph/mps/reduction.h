// Reductions: NNReduceUnary along one axis, NNReductionSpatialMean, NNReduceBinary with weights and
// NNGramMatrixCalculation, with the gradients of spatial mean and Gram matrix.
#pragma once

#include <traingraph/mps/arithmetic.h>

namespace traingraph::mps {

// row: over the columns of each row; column: over the rows of each column.
enum class TRAINGRAPH_API NNReduceAxis : int { kRow, kColumn, kFeatureChannels };
// Arguments are over channels alone.
enum class TRAINGRAPH_API NNReduction : int { kSum, kMean, kMin, kMax, kArgumentMin, kArgumentMax };

// The reduced axis stays with one element. The source's rectangle stands for the offset, which says
// nothing. An argument is the number of the first smallest or
// largest channel among those that are read; NaN is smaller and larger than any number.
class TRAINGRAPH_API NNReduceUnary : public CNNKernel {
 public:
  NNReduceUnary(const Device& device, NNReduceAxis axis, NNReduction reduction);
  const char* kind() const override;
  NNReduceAxis axis() const { return axis_; }
  NNReduction reduction() const { return reduction_; }
  // A factor of sums over channels.
  float weight() const { return weight_; }
  void set_weight(float value) { set(weight_, value); }
  // The source's pixels that are read, as far as they are there.
  const Region& clip_rect_source() const { return clip_rect_source_; }
  void set_clip_rect_source(const Region& value);

 protected:
  OperationPtr make_operation() const override;
  void check_source(const ImageDescriptor& source) const override;
  ImageDescriptor result_of(const ImageDescriptor& source) const override;
  bool has_place() const override { return false; }

 private:
  NNReduceAxis axis_;
  NNReduction reduction_;
  float weight_ = 1;
  Region clip_rect_source_;
};

// The mean over rows and columns: what Apple's graphs make of a row's and a column's mean.
class TRAINGRAPH_API NNReductionSpatialMean final : public CNNKernel {
 public:
  explicit NNReductionSpatialMean(const Device& device) : CNNKernel(device) {}
  const char* kind() const override { return "MPSNNReductionSpatialMean"; }
  // The source's pixels that are read, as far as they are there.
  const Region& clip_rect_source() const { return clip_rect_source_; }
  void set_clip_rect_source(const Region& value);

 protected:
  OperationPtr make_operation() const override;
  void check_source(const ImageDescriptor& source) const override;
  ImageDescriptor result_of(const ImageDescriptor& source) const override;
  StatePtr make_state(const ImageDescriptor& source, const CommandBuffer* on) const override;

 private:
  Region clip_rect_source_;
};

// dx = dy / (rows columns) where the forward kernel has read, which is known by the state; else 0.
class TRAINGRAPH_API NNReductionSpatialMeanGradient final : public CNNGradientKernel {
 public:
  explicit NNReductionSpatialMeanGradient(const Device& device) : CNNGradientKernel(device) {}
  const char* kind() const override { return "MPSNNReductionSpatialMeanGradient"; }
  const Region& clip_rect_source() const { return clip_rect_source_; }
  void set_clip_rect_source(const Region& value);

 protected:
  OperationPtr make_operation() const override;
  void configure(const GradientState& state) override;
  void check_gradient(const ImageDescriptor&, const ImageDescriptor&) const override;

 private:
  Region clip_rect_source_;
};

// What joins the products of an image and weights of its size over the channels. A mean divides by
// the number of channels.
enum class NNWeightedReduction : int { kSum, kSumByNonZeroWeights, kMean };

// y = sum of x_c w_c [/ channels, or / those of a weight that is not 0, at least 1]: one channel.
class TRAINGRAPH_API NNReduceBinary : public CNNBinaryKernel {
 public:
  NNReduceBinary(const Device& device, NNWeightedReduction reduction)
      : CNNBinaryKernel(device), reduction_(reduction) {}
  const char* kind() const override;
  NNWeightedReduction reduction() const { return reduction_; }
  // The pixels of each source that are read, as far as they are there.
  const Region& primary_source_clip_rect() const { return primary_clip_; }
  void set_primary_source_clip_rect(const Region& value);
  const Region& secondary_source_clip_rect() const { return secondary_clip_; }
  void set_secondary_source_clip_rect(const Region& value);
  ImageDescriptor destination_image_descriptor(const ImageDescriptor& primary,
                                               const ImageDescriptor& secondary) const override;

 protected:
  OperationPtr make_operation() const override;
  // Raises Unsupported: there is no gradient.
  StatePtr make_state(const ImageDescriptor&, const ImageDescriptor&,
                      const CommandBuffer*) const override;
  // The sources' channels; their pixels are the operation's. Raises Unsupported for offsets.
  BinaryParts parts(const ImageBatch& primaries, const ImageBatch& secondaries,
                    const ImageBatch& destinations) const override;

 private:
  NNWeightedReduction reduction_;
  Region primary_clip_, secondary_clip_;
};

// y[f, c] = alpha sum of x_f x_c over the pixels: an image of one row and C columns.
class TRAINGRAPH_API NNGramMatrixCalculation final : public CNNKernel {
 public:
  explicit NNGramMatrixCalculation(const Device& device, float alpha = 1)
      : CNNKernel(device), alpha_(alpha) {}
  const char* kind() const override { return "MPSNNGramMatrixCalculation"; }
  float alpha() const { return alpha_; }
  void set_alpha(float value) { set(alpha_, value); }
  // From now on alpha is a number that programs read when they run: another one compiles nothing.
  void set_running_alpha(float value);

 protected:
  OperationPtr make_operation() const override;
  ImageDescriptor result_of(const ImageDescriptor& source) const override;
  StatePtr make_state(const ImageDescriptor& source, const CommandBuffer* on) const override;
  void add_operands(Recording& recording) const override;

 private:
  float alpha_;
  bool running_ = false;
};

// dx_f = alpha sum over c of (dy[f, c] + dy[c, f]) x_c
class TRAINGRAPH_API NNGramMatrixCalculationGradient final : public CNNGradientKernel {
 public:
  explicit NNGramMatrixCalculationGradient(const Device& device, float alpha = 1)
      : CNNGradientKernel(device), alpha_(alpha) {}
  const char* kind() const override { return "MPSNNGramMatrixCalculationGradient"; }
  float alpha() const { return alpha_; }
  void set_alpha(float value) { set(alpha_, value); }
  // As the forward kernel's.
  void set_running_alpha(float value);

 protected:
  OperationPtr make_operation() const override;
  void configure(const GradientState& state) override;
  void check_gradient(const ImageDescriptor&, const ImageDescriptor&) const override;
  void add_operands(Recording& recording, const StateBatch& states) override;

 private:
  float alpha_;
  bool running_ = false;
};

}  // namespace traingraph::mps
