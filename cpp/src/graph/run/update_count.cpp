#include "graph/run/update_count.h"

#include <algorithm>
#include <mutex>

namespace traingraph {

void UpdateCount::submit(Job& job, const OptimizerPtr& optimizer) {
  if (!runs_update(job.run) || optimizer == nullptr || job.graph->mode != Mode::training) return;
  const std::lock_guard lock(Optimizer::counting());
  job.optimizer = optimizer;
  job.learning_rate = optimizer->learning_rate();
  job.time_step = optimizer->time_step_;
  job.given_back = optimizer->given_back_;
  optimizer->time_step_ = std::min(optimizer->time_step_ + 1, Optimizer::kMostTimeSteps);
  ++optimizer->waiting_;
}

void UpdateCount::begin(Job& job) {
  if (job.optimizer == nullptr) return;
  const std::lock_guard lock(Optimizer::counting());
  --job.optimizer->waiting_;
  const std::int64_t step = job.time_step - (job.optimizer->given_back_ - job.given_back);
  job.corrected_learning_rate = job.optimizer->corrected(job.learning_rate, step);
}

void UpdateCount::undo(const Job& job) {
  if (job.optimizer == nullptr) return;
  const std::lock_guard lock(Optimizer::counting());
  --job.optimizer->time_step_;
  ++job.optimizer->given_back_;
}

std::int64_t UpdateCount::time_step(const Optimizer& optimizer) {
  const std::lock_guard lock(Optimizer::counting());
  return optimizer.time_step_ - optimizer.waiting_;
}

void UpdateCount::set_time_step(Optimizer& optimizer, std::int64_t value) {
  const std::lock_guard lock(Optimizer::counting());
  optimizer.time_step_ = std::min(value + optimizer.waiting_, Optimizer::kMostTimeSteps);
}

}  // namespace traingraph
