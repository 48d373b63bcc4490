#pragma once

#include <cstdint>

#include "graph/run/job.h"

namespace traingraph {

// What was submitted of the step being made: the passes that later calls build on, and how many
// micro-batches are summed. Guarded by the executor's mutex.
class SubmissionOrder {
 public:
  SubmissionOrder(const GraphState& graph, std::int64_t declared_batch)
      : graph_(graph), declared_batch_(declared_batch) {}

  // Of a call that asks for `asked`; 0: the declared one, or that of the pass it builds on.
  std::int64_t batch_for(Run run, std::int64_t asked) const;
  // Raises while a step that separate calls have begun needs what its passes have left, whose
  // memory a pass in inference mode takes. `call`: for the message.
  void check_may_infer(const char* call) const;
  // Raises unless the job may follow what was submitted, and settles what it does with the sum of
  // gradients; only `count` counts it.
  void place(Job& job) const;
  void count(const Job& job);

  // Nothing may build on passes of this program any more, or on any. A full sum of gradients, whose
  // update would be next, is given up with them.
  void drop(const CompiledPtr& program);
  void drop_passes();
  // The step, if it is still the one being made, begins again: a pass of it has failed, or a load
  // has replaced what it began with.
  void begin_again(std::uint64_t step);
  // The next forward pass goes on with a step that a checkpoint holds.
  StepPosition resume(int summed, std::int64_t rows);
  const StepPosition& position() const { return position_; }
  // What a gradient would go on from.
  const Passes& passes() const { return passes_; }

 private:
  void place_among_ranks(Job& job) const;
  void place_in_step(Job& job) const;
  void give_up_full_sum();
  // What is to read what the passes have left; null: nothing any more.
  const char* awaited_call() const;
  bool has_micro_batches(const Job& job) const {
    return graph_.micro_batches > 1 && job.graph->mode == Mode::training;
  }

  const GraphState& graph_;  // not for `begin_again`: work in flight may outlive it
  const std::int64_t declared_batch_;
  Passes passes_;
  bool updated_ = false;  // from their gradients
  StepPosition position_;
};

}  // namespace traingraph
