// Optimizers: the base class with learning rate, clipping, regularization and time step, and the
// rules SGD, Adam, AdamW and RMSProp.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <traingraph/export.h>
#include <traingraph/mutex.h>
#include <traingraph/types.h>

namespace traingraph {

class UpdateEmitter;
struct ClassDescription;

enum class RegularizationType : int { kNone = 0, kL1 = 1, kL2 = 2 };
enum class GradientClippingType : int { kByValue = 0, kByNorm = 1, kByGlobalNorm = 2 };

// Rates, rescaling and the penalty's scale are finite and of either sign.
struct TRAINGRAPH_API OptimizerDescriptor {
  static const ClassDescription& class_description();
  float learning_rate = 1e-3f;
  float gradient_rescale = 1.0f;
  RegularizationType regularization_type = RegularizationType::kNone;
  float regularization_scale = 0.0f;
  bool applies_gradient_clipping = false;
  GradientClippingType gradient_clipping_type = GradientClippingType::kByValue;
  float gradient_clip_max = 1.0f;      // infinite: no limit
  float gradient_clip_min = -1.0f;     // not above the largest
  float maximum_clipping_norm = 1.0f;  // 0 or more; infinite: no limit
  float custom_global_norm = 0.0f;     // 0 or more, finite; 0: the joint norm of all gradients

  // Raise InvalidArgument with the first number that lies outside its range; `check_numbers` leaves
  // out that the clipping limits are in order, as while they are set one after the other.
  void check_numbers(const std::string& subject) const;
  void check(const std::string& subject) const;
};

// A rule that turns a gradient into an update: clip, rescale, regularize, update. The learning rate
// and the clipping switch may change at any time and take effect for executions submitted
// afterwards. A new learning rate compiles nothing; switching clipping compiles once.
class TRAINGRAPH_API Optimizer {
 public:
  virtual ~Optimizer();
  const OptimizerDescriptor& descriptor() const { return descriptor_; }
  // These may be called while other threads submit.
  float learning_rate() const { return load(descriptor_.learning_rate); }
  void set_learning_rate(float value);  // finite
  bool applies_gradient_clipping() const { return load(descriptor_.applies_gradient_clipping); }
  void set_applies_gradient_clipping(bool value) {
    store(descriptor_.applies_gradient_clipping, value);
  }
  // The t that the next update will use, starting at 1. One optimizer shared by several graphs
  // counts the updates of all of them, those in flight as well; one that fails is given back.
  std::int64_t time_step() const;
  void set_time_step(std::int64_t value);  // from 1 to kMostTimeSteps
  static constexpr std::int64_t kMostTimeSteps = std::int64_t{1} << 53;

  static const ClassDescription& class_description();
  virtual std::shared_ptr<Optimizer> copy() const = 0;
  virtual std::string description() const = 0;
  // Names of the buffers kept per parameter, zero at the start.
  virtual std::vector<std::string> slots() const = 0;
  // Whether the rule applies the L2 term itself, apart from the gradient.
  virtual bool decouples_decay() const { return false; }
  // A learning rate with the bias correction of this step.
  virtual double corrected(float learning_rate, std::int64_t time_step) const;
  // Writes the update of one parameter as a list of scalar instructions.
  virtual void emit(UpdateEmitter& emitter) const = 0;

 protected:
  Optimizer(OptimizerDescriptor descriptor, const std::string& subject);
  Optimizer(const Optimizer& other)
      : descriptor_(other.descriptor_), time_step_(other.time_step_) {}

 private:
  friend class UpdateCount;
  // Guards the time steps of all optimizers: graphs may share one and have a thread each.
  static Mutex& counting();
  template <class T>
  static T load(const T& value) {
    T result;
    __atomic_load(&value, &result, __ATOMIC_RELAXED);
    return result;
  }
  template <class T>
  static void store(T& to, T value) {
    __atomic_store(&to, &value, __ATOMIC_RELAXED);
  }

  OptimizerDescriptor descriptor_;
  std::int64_t time_step_ = 1;
  std::int64_t given_back_ = 0;  // time steps of updates that failed
  std::int64_t waiting_ = 0;     // updates that were submitted and have not run
};

using OptimizerPtr = std::shared_ptr<Optimizer>;

// v = m v + lr g, p -= v; Nesterov: v = m v + g, p -= lr (g + m v).
// The momentum is from 0 to 1.
class TRAINGRAPH_API SGD final : public Optimizer {
 public:
  static const ClassDescription& class_description();
  explicit SGD(OptimizerDescriptor descriptor, float momentum = 0.0f, bool nesterov = false);
  float momentum() const { return momentum_; }
  bool nesterov() const { return nesterov_; }
  OptimizerPtr copy() const override;
  std::string description() const override;
  std::vector<std::string> slots() const override;
  void emit(UpdateEmitter& emitter) const override;

 private:
  float momentum_;
  bool nesterov_;
};

struct TRAINGRAPH_API AdamOptions {
  float beta1 = 0.9f;     // from 0 to less than 1
  float beta2 = 0.999f;   // from 0 to less than 1
  float epsilon = 1e-8f;  // 0 or more, finite; what is less than FLT_MIN counts as that
  bool uses_amsgrad = false;
  std::int64_t time_step = 1;  // from 1 to Optimizer::kMostTimeSteps
};

// p -= lr sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) + epsilon); epsilon is not corrected.
class TRAINGRAPH_API Adam : public Optimizer {
 public:
  static const ClassDescription& class_description();
  explicit Adam(OptimizerDescriptor descriptor, AdamOptions options = {});
  const AdamOptions& options() const { return options_; }
  OptimizerPtr copy() const override;
  std::string description() const override;
  std::vector<std::string> slots() const override;
  double corrected(float learning_rate, std::int64_t time_step) const override;
  void emit(UpdateEmitter& emitter) const override;

 protected:
  Adam(OptimizerDescriptor descriptor, AdamOptions options, const std::string& subject);

 private:
  AdamOptions options_;
};

// Adam whose L2 term is decoupled: p also decreases by lr * regularization_scale * p.
class TRAINGRAPH_API AdamW final : public Adam {
 public:
  static const ClassDescription& class_description();
  explicit AdamW(OptimizerDescriptor descriptor, AdamOptions options = {});
  OptimizerPtr copy() const override;
  std::string description() const override;
  bool decouples_decay() const override { return true; }
  void emit(UpdateEmitter& emitter) const override;
};

struct TRAINGRAPH_API RMSPropOptions {
  float momentum = 0.0f;  // from 0 to 1
  float alpha = 0.99f;    // from 0 to 1
  float epsilon = 1e-8f;  // as Adam's
  bool is_centered = false;
};

// n = alpha n + (1 - alpha) g^2; step = momentum step - lr g / (sqrt(n) + epsilon); p += step.
class TRAINGRAPH_API RMSProp final : public Optimizer {
 public:
  static const ClassDescription& class_description();
  explicit RMSProp(OptimizerDescriptor descriptor, RMSPropOptions options = {});
  const RMSPropOptions& options() const { return options_; }
  OptimizerPtr copy() const override;
  std::string description() const override;
  std::vector<std::string> slots() const override;
  void emit(UpdateEmitter& emitter) const override;

 private:
  RMSPropOptions options_;
};

}  // namespace traingraph
