// `ExecutionState`, what a handle waits for, and `PendingErrors`, those that no handle has raised.
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
  std::shared_ptr<ExecutionState> next_failed;  // guarded by the mutex of PendingErrors

  void finish();
  // Raises the error if there is one.
  void raise();
};

// Failed executions of a graph whose error nobody has seen, in order. Where somebody has a handle
// of one, that raises it; else the graph's next call does. Has a mutex of its own: whoever holds
// the stream keeps, whoever calls next raises.
class PendingErrors {
 public:
  PendingErrors() = default;
  ~PendingErrors();
  PendingErrors(const PendingErrors&) = delete;
  PendingErrors& operator=(const PendingErrors&) = delete;

  void keep(const std::shared_ptr<ExecutionState>& failed) noexcept;
  // Raises the first error that no handle can raise any more; it stands for later ones of them.
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
