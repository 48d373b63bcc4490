#include "graph/update_count.h"

#include <algorithm>
#include <mutex>

namespace traingraph {
namespace {

std::mutex& counting() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

void UpdateCount::submit(Job& job, const OptimizerPtr& optimizer) {
  if (!runs_update(job.run) || optimizer == nullptr || job.graph->mode != Mode::training) return;
  const std::lock_guard lock(counting());
  job.optimizer = optimizer;
  job.learning_rate = optimizer->learning_rate();
  job.corrected_learning_rate = optimizer->corrected_learning_rate(optimizer->time_step());
  optimizer->set_time_step(std::min(optimizer->time_step() + 1, Optimizer::kMostTimeSteps));
  ++waiting_;
}

void UpdateCount::undo(const Job& job) {
  if (job.optimizer == nullptr) return;
  const std::lock_guard lock(counting());
  job.optimizer->set_time_step(job.optimizer->time_step() - 1);
}

std::int64_t UpdateCount::time_step(const Optimizer& optimizer) const {
  const std::lock_guard lock(counting());
  return optimizer.time_step() - waiting_;
}

void UpdateCount::set_time_step(Optimizer& optimizer, std::int64_t value) {
  const std::lock_guard lock(counting());
  optimizer.set_time_step(std::min(value + waiting_, Optimizer::kMostTimeSteps));
}

}  // namespace traingraph
