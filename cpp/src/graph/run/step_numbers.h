#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include <traingraph/errors.h>

#include "engine/step_scalars.h"
#include "graph/run/job.h"

namespace traingraph {

// The numbers of a step that programs read: rates, the count of forward passes, where a micro-batch
// stands. Touched by whoever holds the stream; `bind` and `list` hold the executor's mutex.
class StepNumbers {
 public:
  StepNumbers(const Backend& backend, std::shared_ptr<std::atomic<std::int64_t>> forward_count)
      : scalars_(backend, ir::kStepInputCount), forward_count_(std::move(forward_count)) {}
  StepNumbers(const StepNumbers&) = delete;
  StepNumbers& operator=(const StepNumbers&) = delete;

  // Points the program's inputs here, or to the block on a device that cannot read the host's.
  void bind(CompiledGraph& graph);
  // Counts the job's forward pass, and writes what its program reads.
  void write(const Job& job);
  // Runs it. Where there is no memory for that, or a number that is not finite has stopped it, its
  // forward pass does not count after all: the next step has the masks that it would have had.
  template <class Run>
  void during(const Job& job, const Run& run) {
    try {
      run();
    } catch (const OutOfMemory&) {
      take_back(job);
      throw;
    } catch (const NumericError&) {
      take_back(job);
      throw;
    } catch (const std::bad_alloc&) {
      take_back(job);
      throw;
    }
  }
  // After a run that failed, which may not have brought what was sent. By any thread.
  void forget_sent() { scalars_.forget_sent(); }
  std::int64_t forward_passes() const { return *forward_count_; }
  // Adds its entry.
  void list(MemoryPlan& plan) const;

 private:
  void take_back(const Job& job);

  StepScalars scalars_;
  const std::shared_ptr<std::atomic<std::int64_t>> forward_count_;
};

}  // namespace traingraph
