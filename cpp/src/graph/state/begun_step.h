// A step of micro-batches that a checkpoint holds, until an executor goes on with it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <traingraph/mutex.h>
#include <traingraph/tensor.h>

namespace traingraph {

// Of a step of micro-batches, what those before have left: a checkpoint between two of them holds
// it.
struct BegunStep {
  std::int64_t micro_batches = 0;                      // that make the step
  std::int64_t summed = 0;                             // so many are
  std::int64_t rows = 0;                               // of so many rows
  std::vector<std::pair<TensorPtr, TensorData>> sums;  // of gradients, by parameter
  // GraphState::changes of the snapshot when a compiled graph took it: what compiles again drops
  // it.
  std::optional<std::uint64_t> taken_at = std::nullopt;
};
using BegunStepPtr = std::shared_ptr<const BegunStep>;

// The one that was loaded and not yet gone on with; null: none. A graph and the executors that were
// made for it see the same.
class LoadedStep {
 public:
  // Without waiting.
  bool is_there() const { return is_there_; }
  BegunStepPtr get() const {
    const std::lock_guard lock(mutex_);
    return step_;
  }
  BegunStepPtr take() {
    const std::lock_guard lock(mutex_);
    is_there_ = false;
    return std::move(step_);
  }
  void set(BegunStepPtr step) {
    const std::lock_guard lock(mutex_);
    step_ = std::move(step);
    is_there_ = step_ != nullptr;
  }
  // By the first compile.
  void set_taken_at(std::uint64_t changes) {
    const std::lock_guard lock(mutex_);
    if (step_ == nullptr) return;
    auto taken = std::make_shared<BegunStep>(*step_);
    taken->taken_at = changes;
    step_ = std::move(taken);
  }

 private:
  mutable Mutex mutex_;
  std::atomic<bool> is_there_{false};
  BegunStepPtr step_;
};

}  // namespace traingraph
