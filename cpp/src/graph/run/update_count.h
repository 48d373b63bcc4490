#pragma once

#include <cstdint>

#include "graph/run/job.h"

namespace traingraph {

// What updates take from the optimizer: rates in the order of submission, and a time step each,
// which one that fails gives back to those behind it. Graphs may share an optimizer and have a
// thread each, so one mutex of the process guards counts.
class UpdateCount {
 public:
  // Gives the job the optimizer's rates and its next time step.
  static void submit(Job& job, const OptimizerPtr& optimizer);
  // The job's update has begun: from now on it counts as done.
  static void begin(Job& job);
  // It has failed, and does not count after all.
  static void undo(const Job& job);

  // The time step between executions: without updates still to come.
  static std::int64_t time_step(const Optimizer& optimizer);
  static void set_time_step(Optimizer& optimizer, std::int64_t value);
};

}  // namespace traingraph
