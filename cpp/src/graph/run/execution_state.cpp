#include "graph/run/execution_state.h"

#include <utility>

namespace traingraph {

void ExecutionState::finish() {
  std::vector<std::function<void()>> waiting;
  {
    const std::lock_guard lock(mutex);
    done = true;
    waiting.swap(continuations);
  }
  for (const std::function<void()>& continuation : waiting) continuation();
}

void ExecutionState::raise() {
  if (error == nullptr) return;
  raised = true;
  std::rethrow_exception(error);
}

void UnseenFailure::keep(const std::shared_ptr<ExecutionState>& failed) {
  const std::lock_guard lock(mutex_);
  if (first_ == nullptr || first_->raised) first_ = failed;
  is_there_.store(true, std::memory_order_release);
}

void UnseenFailure::raise_first() {
  std::shared_ptr<ExecutionState> failure;
  {
    const std::lock_guard lock(mutex_);
    std::swap(failure, first_);
    is_there_ = false;
  }
  if (failure != nullptr && !failure->raised) failure->raise();
}

}  // namespace traingraph
