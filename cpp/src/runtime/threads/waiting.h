#pragma once

#include <atomic>
#include <mutex>

#include <traingraph/mutex.h>

#include "runtime/threads/fork_guard.h"

namespace traingraph {

// The thread that has something others wait for; none: no thread.
using Holder = std::atomic<ThreadId>;

// A deadlock cycle of waiting threads is broken where one waits for a stream, which is lent.
enum class Awaited { stream, task, compilation };

// Says, for its lifetime, for whom this thread waits.
class WaitingFor {
 public:
  WaitingFor(const Holder& holder, Awaited what);
  ~WaitingFor();
  WaitingFor(const WaitingFor&) = delete;
  WaitingFor& operator=(const WaitingFor&) = delete;

  // Whether the holder waits in turn for this thread, over however many others, and this thread is
  // to break that: it wants a stream, or nobody there does and it wants a task.
  bool breaks_deadlock() const { return breaks_deadlock_; }

 private:
  bool breaks_deadlock_ = false;
};

// Sleeps for a moment or until woken. False, at once, where it is to break a deadlock instead.
// Raises what ends the wait, DeviceError where the holder is a thread of a parent that has forked;
// the lock is then released, else held.
bool sleep(std::unique_lock<Mutex>& lock, Condition& changed, const Holder& holder, Awaited what);

// One compilation at a time: graphs that share parameters merge their streams while compiling. A
// thread may take the lock again inside. One that waits for it in a completion handler lends the
// stream that it holds to whoever compiles: it stands between two units of work.
class CompilationLock {
 public:
  CompilationLock();
  ~CompilationLock();
  CompilationLock(const CompilationLock&) = delete;
  CompilationLock& operator=(const CompilationLock&) = delete;
};

}  // namespace traingraph
