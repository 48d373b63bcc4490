#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace traingraph {

// The thread that has something others wait for; none: no thread.
using Holder = std::atomic<std::thread::id>;

// A circle of threads that wait for each other ends where one waits for a stream, which is lent.
enum class Awaited { stream, task, turn };

// Says, for its lifetime, for whom this thread waits.
class WaitingFor {
 public:
  WaitingFor(const Holder& holder, Awaited what);
  ~WaitingFor();
  WaitingFor(const WaitingFor&) = delete;
  WaitingFor& operator=(const WaitingFor&) = delete;

  // Whether the holder waits in turn for this thread, over however many others, and this thread is
  // to end that: it wants a stream, or nobody there does and it wants a task.
  bool ends_circle() const { return ends_circle_; }

 private:
  bool ends_circle_ = false;
};

// Sleeps for a moment or until woken. False, at once, where it is to end a circle instead. Raises
// what ends the wait, DeviceError where the threads are those of a parent; the lock is then
// released, else held.
bool sleep(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
           const Holder& holder, Awaited what);

// One compilation at a time: graphs that share parameters merge their streams while compiling. A
// thread may take its turn again inside. One that waits for its turn in a completion handler lends
// the stream that it holds to whoever compiles: it stands between two units of work.
class CompilationTurn {
 public:
  CompilationTurn();
  ~CompilationTurn();
  CompilationTurn(const CompilationTurn&) = delete;
  CompilationTurn& operator=(const CompilationTurn&) = delete;
};

}  // namespace traingraph
