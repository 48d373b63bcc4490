// The one background thread: takes streams that have tasks, in the order they asked.
#pragma once

#include <atomic>
#include <memory>

#include <traingraph/mutex.h>

#include "runtime/threads/stream.h"

namespace traingraph {

class Worker {
 public:
  static Worker& instance();

  // Unless it is there. Raises DeviceError where the system has no thread.
  void start();
  // Neither needs memory: a stream has its places in the two lists with it.
  void enqueue(const std::shared_ptr<Stream>& stream, bool is_awaited) noexcept;
  // Whether it works on another stream.
  bool is_elsewhere(const Stream& stream) const noexcept {
    const Stream* const at = at_;
    return at != nullptr && at != &stream;
  }
  // Looks at what it has begun, from then on until nothing is left.
  void watch(const std::shared_ptr<Stream>& stream,
             std::chrono::steady_clock::time_point from) noexcept;

 private:
  using Place = Stream::Place;

  // False where it is there.
  static bool add(const std::shared_ptr<Stream>& stream, Place& place, Place& to) noexcept;
  static std::shared_ptr<Stream> take(Place& from, Place::iterator at, Place Stream::* place);
  static void leave_to_others(Stream& stream);
  static void run_first(Stream& stream, bool is_awaited);
  void loop();

  Mutex mutex_;
  Condition changed_;
  Place ready_;
  Place watched_;
  std::atomic<bool> is_there_{false};
  std::atomic<const Stream*> at_{nullptr};  // what it works on
};

}  // namespace traingraph
