#include <traingraph/optimizer.h>

#include <utility>

namespace traingraph {

Optimizer::Optimizer(OptimizerDescriptor descriptor) : descriptor_(std::move(descriptor)) {}
Optimizer::~Optimizer() = default;

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
  const std::lock_guard lock(counting());
  time_step_ = value;
}

double Optimizer::corrected(float learning_rate, std::int64_t) const { return learning_rate; }

}  // namespace traingraph
