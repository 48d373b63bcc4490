// `ExecutionState`, what a handle waits for, and `PendingErrors`, those that no handle has raised.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <traingraph/mutex.h>
#include <traingraph/profile.h>
#include <traingraph/tensor.h>

#include "ir/type.h"
#include "runtime/threads/stream.h"

namespace traingraph {

// A result that lies where a run on host memory has left it.
struct LeftResult {
  std::shared_ptr<const std::byte> bytes;
  ir::Type type;
  ir::Layout layout;
};

// One submitted execution, shared by its handle and the queue.
struct ExecutionState {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Task> task;  // null after a synchronous run
  Mutex mutex;
  bool done = false;
  std::exception_ptr error;
  std::atomic<bool> raised{false};  // somebody has seen the error
  TensorData result;
  // A large result lies where the run has left it, and `result` is room for it, until somebody
  // reads it or the next forward pass begins. None: it was copied. Guarded by the mutex.
  std::optional<LeftResult> left;
  std::atomic<bool> is_left{false};
  double seconds = 0;
  std::shared_ptr<const Profile> profile;
  std::vector<std::function<void()>> continuations;
  std::shared_ptr<ExecutionState> next_failed;  // guarded by the mutex of PendingErrors

  void finish();
  // Copies the result out unless that was done.
  void take_result();
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
