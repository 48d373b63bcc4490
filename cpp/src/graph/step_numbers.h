#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "graph/job.h"

namespace traingraph {

// The numbers of a step that programs read: rates, the count of forward passes, where a micro-batch
// stands. Touched by whoever holds the stream; `bind` and `list` hold the executor's mutex.
class StepNumbers {
 public:
  StepNumbers(const Backend& backend, std::shared_ptr<std::atomic<std::int64_t>> forward_count)
      : backend_(backend), forward_count_(std::move(forward_count)) {}
  StepNumbers(const StepNumbers&) = delete;
  StepNumbers& operator=(const StepNumbers&) = delete;

  // Points the program's inputs here, or to the block on a device that cannot read the host's.
  void bind(CompiledGraph& graph);
  // Counts the job's forward pass, and writes what its program reads.
  void write(const Job& job);
  // After a run that failed, which may not have brought what was sent. By any thread.
  void forget_sent() { sent_is_there_ = false; }
  std::int64_t forward_passes() const { return *forward_count_; }
  // Adds its entry.
  void list(MemoryPlan& plan) const;

 private:
  static constexpr std::size_t kBytes = std::size_t{8} * ir::kStepInputCount;

  std::byte* block();
  // To a device of its own memory, if one that the graph reads has changed.
  void send(const CompiledGraph& graph);

  const Backend& backend_;
  const std::shared_ptr<std::atomic<std::int64_t>> forward_count_;
  // Eight bytes each: float32, float64 or int64.
  alignas(64) std::byte numbers_[kBytes] = {};
  std::byte sent_[kBytes] = {};  // what the device has
  std::atomic<bool> sent_is_there_ = true;
  std::shared_ptr<std::byte> block_;
};

}  // namespace traingraph
