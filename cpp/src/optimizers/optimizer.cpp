#include <traingraph/optimizer.h>

#include <utility>

#include "runtime/range.h"

namespace traingraph {

void OptimizerDescriptor::check_numbers(const std::string& subject) const {
  expect_in(kFinite, subject, "learning_rate", learning_rate);
  expect_in(kFinite, subject, "gradient_rescale", gradient_rescale);
  expect_in(kFinite, subject, "regularization_scale", regularization_scale);
  expect_in(kAnyNumber, subject, "gradient_clip_max", gradient_clip_max);
  expect_in(kAnyNumber, subject, "gradient_clip_min", gradient_clip_min);
  expect_in(kLimit, subject, "maximum_clipping_norm", maximum_clipping_norm);
  expect_in(kNotNegative, subject, "custom_global_norm", custom_global_norm);
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

std::mutex& Optimizer::counting() {
  // Never destroyed: work in flight may end while static objects go.
  static auto* const mutex = new std::mutex;
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

}  // namespace traingraph
