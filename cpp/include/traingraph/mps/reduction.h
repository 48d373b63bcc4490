#pragma once

#include <traingraph/mps/kernel.h>

namespace traingraph::mps {

// row: over the columns of each row; column: over the rows of each column.
enum class NNReduceAxis : int { kRow, kColumn, kFeatureChannels };

// The reduced axis stays with one element.
class TRAINGRAPH_API NNReduceUnary : public CNNKernel {
 public:
  NNReduceUnary(const Device& device, NNReduceAxis axis, bool mean)
      : CNNKernel(device), axis_(axis), mean_(mean) {}
  const char* kind() const override;
  NNReduceAxis axis() const { return axis_; }
  bool mean() const { return mean_; }
  // A factor of sums over channels.
  float weight() const { return weight_; }
  void set_weight(float value) { set(weight_, value); }

 protected:
  OperationPtr make_operation() const override;
  ImageDescriptor result_of(const ImageDescriptor& source) const override;

 private:
  NNReduceAxis axis_;
  bool mean_;
  float weight_ = 1;
};

// The mean over rows and columns: what Apple's graphs make of a row's and a column's mean.
class TRAINGRAPH_API NNReductionSpatialMean final : public CNNKernel {
 public:
  explicit NNReductionSpatialMean(const Device& device) : CNNKernel(device) {}
  const char* kind() const override { return "MPSNNReductionSpatialMean"; }

 protected:
  OperationPtr make_operation() const override;
  ImageDescriptor result_of(const ImageDescriptor& source) const override;
};

// dx = dy / (rows columns)
class TRAINGRAPH_API NNReductionSpatialMeanGradient final : public CNNGradientKernel {
 public:
  explicit NNReductionSpatialMeanGradient(const Device& device) : CNNGradientKernel(device) {}
  const char* kind() const override { return "MPSNNReductionSpatialMeanGradient"; }

 protected:
  OperationPtr make_operation() const override;
  void check_gradient(const ImageDescriptor&, const ImageDescriptor&) const override;
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
