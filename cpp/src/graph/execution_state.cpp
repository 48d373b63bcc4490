#include "graph/execution_state.h"

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
}

void UnseenFailure::raise() {
  std::shared_ptr<ExecutionState> failure;
  {
    const std::lock_guard lock(mutex_);
    std::swap(failure, first_);
  }
  if (failure != nullptr && !failure->raised) failure->raise();
}

}  // namespace traingraph
