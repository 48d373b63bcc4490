#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace traingraph {

// The thread that has something others wait for; none: no thread.
using Holder = std::atomic<std::thread::id>;

// Says, for its lifetime, for whom this thread waits.
class WaitingFor {
 public:
  explicit WaitingFor(const Holder& holder);
  ~WaitingFor();
  WaitingFor(const WaitingFor&) = delete;
  WaitingFor& operator=(const WaitingFor&) = delete;

  // Whether the holder waits in turn for this thread, over however many others.
  bool is_circle() const { return is_circle_; }

 private:
  bool is_circle_ = false;
};

// Sleeps for a moment or until woken. False, at once, where it would wait for itself, unless
// somebody else breaks such circles. Raises what ends the wait, DeviceError where the threads are
// those of a parent; the lock is then released, else held.
bool sleep(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
           const Holder& holder, bool in_circles = false);

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
