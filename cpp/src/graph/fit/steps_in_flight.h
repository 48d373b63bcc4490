// The steps of an epoch that were submitted, and their losses over all ranks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>

#include <traingraph/fit.h>

#include "graph/fit/loss_sum.h"
#include "graph/fit/samples.h"
#include "graph/run/executor.h"

namespace traingraph {

// The steps of an epoch: one after another where the calling thread runs them, else some of them
// before the device while the next ones are submitted, for as long as Ctrl-C may wait. `progress`
// is kept up to date with those that are known to be done.
class StepsInFlight {
 public:
  // `loss`: of the steps that `progress` has already.
  StepsInFlight(const GraphState& state, const Backend& device, const FitArguments& fit,
                LossSum loss, FitProgress& progress);

  void add(Executor& executor, Samples::Batch& batch);
  void wait();
  // After a failure: those that go well before the first that does not still count.
  void give_up();
  const LossSum& loss() const { return loss_; }
  // Whether a rank of several wants the fit to end: the caller of one asks itself.
  bool are_to_end() const { return are_to_end_; }
  // Of a step that has trained.
  bool found_infinite_loss() const { return found_infinite_loss_; }

 private:
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kOfRanks = 2;
  static constexpr double kMostSeconds = 0.05;
  struct Begun {
    Execution execution;
    std::int64_t rows;
  };

  std::size_t allowed() const;
  void take_first();
  // To the sum over all ranks, of which each has its part of the batch; returns that batch's.
  double add_over_ranks(const Begun& step);
  void report(double loss);

  const GraphState& state_;
  const FitArguments& fit_;
  LossSum loss_;
  bool are_to_end_ = false;
  FitProgress& progress_;
  const std::int64_t before_ = progress_.steps;
  bool waits_ = false;
  bool found_infinite_loss_ = false;
  ExecutionOptions options_ = ExecutionOptions::kNone;
  std::deque<Begun> begun_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace traingraph
