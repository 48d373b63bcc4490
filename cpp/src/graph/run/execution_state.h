#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <traingraph/mutex.h>
#include <traingraph/profile.h>
#include <traingraph/tensor.h>

#include "runtime/threads/stream.h"

namespace traingraph {

// One submitted execution, shared by its handle and the queue.
struct ExecutionState {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Task> task;  // null after a synchronous run
  Mutex mutex;
  bool done = false;
  std::exception_ptr error;
  std::atomic<bool> raised{false};  // somebody has seen the error
  TensorData result;
  double seconds = 0;
  std::shared_ptr<const Profile> profile;
  std::vector<std::function<void()>> continuations;

  void finish();
  // Raises the error if there is one.
  void raise();
};

// The first failed execution whose error nobody has seen. Has a mutex of its own: whoever holds the
// stream keeps, whoever calls next raises.
class UnseenFailure {
 public:
  void keep(const std::shared_ptr<ExecutionState>& failed);
  // Raises its error unless somebody has seen it since; then there is none.
  void raise() {
    if (is_there_.load(std::memory_order_acquire)) raise_first();
  }

 private:
  void raise_first();

  Mutex mutex_;
  std::atomic<bool> is_there_{false};
  std::shared_ptr<ExecutionState> first_;
};

}  // namespace traingraph
