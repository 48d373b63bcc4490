// What all optimizers share: checks of the descriptor, the learning rate, and time steps that
// threads count.
#include <traingraph/describe.h>
#include <traingraph/mutex.h>
#include <traingraph/optimizer.h>

#include <utility>

#include "runtime/numbers/range.h"

namespace traingraph {

void OptimizerDescriptor::check_numbers(const std::string& subject) const {
  check_ranges(class_description(), this, subject);
}

void OptimizerDescriptor::check(const std::string& subject) const {
  check_numbers(subject);
  const Range up_to_max{-kInfinite, gradient_clip_max, "gradient_clip_max or less"};
  expect_in(up_to_max, subject, "gradient_clip_min", gradient_clip_min);
}

Optimizer::Optimizer(OptimizerDescriptor descriptor, const std::string& subject)
    : descriptor_(std::move(descriptor)) {
  descriptor_.check(subject);
}
Optimizer::~Optimizer() = default;

void Optimizer::set_learning_rate(float value) {
  expect_in(kFinite, description(), "learning_rate", value);
  store(descriptor_.learning_rate, value);
}

Mutex& Optimizer::counting() {
  // Never destroyed: work in flight may end while static objects go.
  static auto* const mutex = new Mutex;
  return *mutex;
}

std::int64_t Optimizer::time_step() const {
  const std::lock_guard lock(counting());
  return time_step_;
}

void Optimizer::set_time_step(std::int64_t value) {
  if (value < 1 || value > kMostTimeSteps) {
    throw InvalidArgument("[" + description() + "] expected time_step to be from 1 to " +
                          std::to_string(kMostTimeSteps) + " but got " + std::to_string(value));
  }
  const std::lock_guard lock(counting());
  time_step_ = value;
}

double Optimizer::corrected(float learning_rate, std::int64_t) const { return learning_rate; }

const ClassDescription& OptimizerDescriptor::class_description() {
  using D = OptimizerDescriptor;
  static const ClassDescription description =
      Describing<D>("MLCOptimizerDescriptor",
                    "The numbers that all optimizers share: rate, rescaling, clipping, penalty.")
          .required_field("learning_rate", &D::learning_rate,
                          "The size of a step: finite, also negative.", &kFinite)
          .field("gradient_rescale", &D::gradient_rescale,
                 "The factor of a clipped gradient: finite.", &kFinite)
          .field("applies_gradient_clipping", &D::applies_gradient_clipping,
                 "Whether gradients are clipped.")
          .field("gradient_clipping_type", &D::gradient_clipping_type, "The kind of clipping.")
          .field("gradient_clip_max", &D::gradient_clip_max,
                 "The largest element, BY_VALUE; may be infinite.", &kAnyNumber)
          .field("gradient_clip_min", &D::gradient_clip_min,
                 "The smallest element, BY_VALUE: gradient_clip_max or less; may be infinite.",
                 &kAnyNumber)
          .field("maximum_clipping_norm", &D::maximum_clipping_norm,
                 "The largest norm: 0 or more; may be infinite.", &kLimit)
          .field("custom_global_norm", &D::custom_global_norm,
                 "Replaces the joint norm of all gradients unless it is 0: 0 or more, finite.",
                 &kNotNegative)
          .field("regularization_type", &D::regularization_type, "The penalty on weights.")
          .field("regularization_scale", &D::regularization_scale,
                 "The factor of the penalty: finite, also negative.", &kFinite)
          .made_of_fields(
              "A gradient is clipped, rescaled, regularized and then applied. Errors: a number "
              "outside the range that its property states.");
  return description;
}

const ClassDescription& Optimizer::class_description() {
  static const ClassDescription description =
      Describing<Optimizer, Optimizer>("MLCOptimizer", "A rule that turns gradients into updates.")
          .settable("learning_rate", &Optimizer::learning_rate, &Optimizer::set_learning_rate,
                    "Finite, also negative. May change at any time; executions submitted "
                    "afterwards use it.")
          .settable("applies_gradient_clipping", &Optimizer::applies_gradient_clipping,
                    &Optimizer::set_applies_gradient_clipping, "May change at any time.")
          .properties_of(&Optimizer::descriptor)
          .copied_by(&Optimizer::copy)
          .repr(&Optimizer::description);
  return description;
}

}  // namespace traingraph
