// NNOptimizer kernels (stochastic gradient descent, RMSProp, Adam) that update weights, biases,
// gamma and beta, and Vector, the type of their slots.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <vector>

#include <traingraph/mps/batch_normalization.h>
#include <traingraph/mps/convolution.h>
#include <traingraph/optimizer.h>

namespace traingraph::mps {

// Apple's MPSDataType: float16, float32, float64 or kInvalid.
struct TRAINGRAPH_API ElementType {
  DataType type = DataType::kFloat32;
};

struct TRAINGRAPH_API VectorDescriptor {
  std::int64_t length = 1;
  ElementType data_type;
  // Raises InvalidArgument for less than one element, and for a type of no bytes.
  std::int64_t vector_bytes() const;
};

// One row of numbers on a device.
class TRAINGRAPH_API Vector {
 public:
  static const ClassDescription& class_description();
  Vector(const Device& device, std::int64_t length, DataType data_type = DataType::kFloat32);
  Vector(std::shared_ptr<Buffer> buffer, std::int64_t length,
         DataType data_type = DataType::kFloat32);
  Device device() const { return data_->device(); }
  std::int64_t length() const { return length_; }
  DataType data_type() const { return data_type_; }
  const std::shared_ptr<Buffer>& data() const { return data_; }

 private:
  std::int64_t length_;
  DataType data_type_;
  std::shared_ptr<Buffer> data_;
};
using VectorPtr = std::shared_ptr<Vector>;

// Apple's raw values.
enum class NNRegularizationType : int { kNone = 0, kL1 = 1, kL2 = 2 };

// Apple's descriptor, in which both limits of gradients begin as 0.
struct TRAINGRAPH_API NNOptimizerDescriptor : OptimizerDescriptor {
  NNOptimizerDescriptor() { gradient_clip_max = gradient_clip_min = 0; }
  explicit NNOptimizerDescriptor(const OptimizerDescriptor& values) : OptimizerDescriptor(values) {}
};

// An update rule, encoded: the rules of traingraph::Optimizer over states and vectors. Slots are
// the rule's own vectors in its order (momentum; momentum, velocity [, maximum velocity]; sum of
// squares), updated in place. Each encoding of Adam first raises the time step by one.
class TRAINGRAPH_API NNOptimizer : public Kernel {
 public:
  const OptimizerDescriptor& descriptor() const { return descriptor_; }
  float learning_rate() const { return descriptor_.learning_rate; }
  void set_learning_rate(float value);  // finite
  bool apply_gradient_clipping() const { return descriptor_.applies_gradient_clipping; }
  void set_apply_gradient_clipping(bool value) {
    set(descriptor_.applies_gradient_clipping, value);
  }

  void encode(CommandBuffer& buffer, const VectorPtr& gradient, const VectorPtr& values,
              const std::vector<VectorPtr>& slots, const VectorPtr& result);
  // Vectors for the weights come first, then those for the biases, slot by slot.
  void encode(CommandBuffer& buffer, CNNConvolutionGradientState& gradient,
              CNNConvolutionWeightsAndBiasesState& source,
              const std::vector<std::vector<VectorPtr>>& slots,
              CNNConvolutionWeightsAndBiasesState& result);
  // Gradients of one state and values of one, which may be the same. Vectors for gamma come first,
  // then those for beta.
  void encode(CommandBuffer& buffer, CNNBatchNormalizationState& gradient,
              CNNBatchNormalizationState& source, const std::vector<std::vector<VectorPtr>>& slots,
              CNNNormalizationGammaAndBetaState& result);

 protected:
  NNOptimizer(const Device& device, OptimizerDescriptor descriptor)
      : Kernel(device), descriptor_(std::move(descriptor)) {}

  virtual OptimizerPtr make_rule(bool has_maximum) const = 0;
  virtual std::size_t least_slots() const = 0;
  virtual std::size_t most_slots() const { return least_slots(); }
  // Before each encoding.
  virtual std::int64_t next_time_step() { return 1; }
  OperationPtr make_operation() const override;

  OptimizerDescriptor descriptor_;

 private:
  // One row of numbers; the buffers are the caller's.
  struct Part {
    const std::shared_ptr<Storage>*gradient, *values, *result;
    std::array<const std::shared_ptr<Storage>*, 3> slots{};
  };
  void encode(CommandBuffer& buffer, std::span<const Part> parts, std::size_t slots);
  // Raises unless it keeps so many vectors.
  void check_slots(std::size_t count) const;
  // Raises InvalidArgument for gradients that no buffer writes which was, or may be, committed.
  void expect_written(const Storage& values, const State& gradient,
                      const CommandBuffer& buffer) const;
  // What it keeps beside the values, which then lies as they do.
  const std::shared_ptr<Storage>* slot_for(const VectorPtr& vector, const Storage& values) const;
  // The part of weights, gamma (0), biases or beta (1).
  Part part_of(const Buffer& gradient, const Buffer& values, const Buffer& result,
               const std::vector<std::vector<VectorPtr>>& slots, std::size_t which,
               const char* what) const;

  std::size_t slots_ = 0;  // of the last encoding
};

class TRAINGRAPH_API NNOptimizerStochasticGradientDescent final : public NNOptimizer {
 public:
  NNOptimizerStochasticGradientDescent(const Device& device, float momentum_scale,
                                       bool use_nesterov_momentum, OptimizerDescriptor descriptor);
  const char* kind() const override { return "MPSNNOptimizerStochasticGradientDescent"; }
  float momentum_scale() const { return momentum_; }
  bool use_nesterov_momentum() const { return nesterov_; }

 protected:
  OptimizerPtr make_rule(bool) const override;
  std::size_t least_slots() const override { return momentum_ == 0 ? 0 : 1; }

 private:
  float momentum_;
  bool nesterov_;
};

class TRAINGRAPH_API NNOptimizerRMSProp final : public NNOptimizer {
 public:
  NNOptimizerRMSProp(const Device& device, double decay, float epsilon,
                     OptimizerDescriptor descriptor);
  const char* kind() const override { return "MPSNNOptimizerRMSProp"; }
  double decay() const { return decay_; }
  float epsilon() const { return epsilon_; }

 protected:
  OptimizerPtr make_rule(bool) const override;
  std::size_t least_slots() const override { return 1; }

 private:
  double decay_;
  float epsilon_;
};

class TRAINGRAPH_API NNOptimizerAdam final : public NNOptimizer {
 public:
  NNOptimizerAdam(const Device& device, double beta1, double beta2, float epsilon,
                  std::int64_t time_step, OptimizerDescriptor descriptor);
  const char* kind() const override { return "MPSNNOptimizerAdam"; }
  double beta1() const { return beta1_; }
  double beta2() const { return beta2_; }
  float epsilon() const { return epsilon_; }
  std::int64_t time_step() const { return time_step_; }
  void set_time_step(std::int64_t value);  // from 0 to Optimizer::kMostTimeSteps - 1

 protected:
  OptimizerPtr make_rule(bool has_maximum) const override;
  std::size_t least_slots() const override { return 2; }
  std::size_t most_slots() const override { return 3; }
  std::int64_t next_time_step() override {
    return time_step_ = std::min(time_step_ + 1, Optimizer::kMostTimeSteps - 1);
  }

 private:
  double beta1_;
  double beta2_;
  float epsilon_;
  std::int64_t time_step_ = 0;
};

}  // namespace traingraph::mps
