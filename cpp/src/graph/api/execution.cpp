#include <traingraph/graph.h>

#include "graph/run/execution_state.h"

namespace traingraph {

Execution::Execution(std::shared_ptr<ExecutionState> state) : state_(std::move(state)) {}

bool Execution::done() const {
  const std::lock_guard lock(state_->mutex);
  return state_->done;
}

void Execution::wait() const {
  if (state_->task != nullptr) state_->stream->wait(state_->task);
  state_->raise();
}

TensorData Execution::result() const {
  wait();
  state_->take_result();
  return state_->result;
}

double Execution::seconds() const {
  wait();
  return state_->seconds;
}

std::shared_ptr<const Profile> Execution::profile() const {
  wait();
  return state_->profile;
}

void Execution::then(std::function<void()> f) const {
  {
    const std::lock_guard lock(state_->mutex);
    if (!state_->done) {
      state_->continuations.push_back(std::move(f));
      return;
    }
  }
  f();
}

}  // namespace traingraph
