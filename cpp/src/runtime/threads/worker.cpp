// The worker: how it is started, what it takes next, and how long it leaves that to others.
#include "runtime/threads/worker.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <traingraph/errors.h>

namespace traingraph {
namespace {

// How long what is awaited may take to be waited for.
constexpr std::chrono::microseconds kPatience{100};

using Clock = std::chrono::steady_clock;

}  // namespace

Worker& Worker::instance() {
  // Never destroyed: joining at exit could wait for work of modules already gone.
  static Worker* worker = new Worker;
  return *worker;
}

void Worker::start() {
  if (is_there_) return;
  const std::lock_guard lock(mutex_);
  if (is_there_) return;
  try {
    std::thread([this] { loop(); }).detach();
  } catch (const std::system_error& error) {
    throw DeviceError(
        std::string("[execute] expected to start a thread for work that nobody waits for, but "
                    "the system has none: ") +
        error.code().message() + "; synchronous calls need none");
  }
  is_there_ = true;
}

void Worker::enqueue(const std::shared_ptr<Stream>& stream, bool is_awaited) noexcept {
  {
    const LockUnlessLost lock(mutex_);
    if (!lock) return;
    const bool is_new = add(stream, stream->ready_place_, ready_);
    stream->is_awaited_ = is_awaited && (is_new || stream->is_awaited_);
  }
  changed_.notify_one();
}

void Worker::watch(const std::shared_ptr<Stream>& stream, Clock::time_point from) noexcept {
  {
    const LockUnlessLost lock(mutex_);
    if (!lock) return;
    add(stream, stream->watched_place_, watched_);
    stream->look_at_ = from;
  }
  changed_.notify_one();
}

bool Worker::add(const std::shared_ptr<Stream>& stream, Place& place, Place& to) noexcept {
  if (place.empty()) return false;
  place.front() = stream;
  to.splice(to.end(), place);
  return true;
}

std::shared_ptr<Stream> Worker::take(Place& from, Place::iterator at, Place Stream::* place) {
  std::shared_ptr<Stream> stream = std::move(*at);
  Place& own = (*stream).*place;
  own.splice(own.end(), from, at);
  return stream;
}

// For a moment, or until another thread has taken what there is. It does not sleep: waking up
// amid the run would hold up a thread that works on it.
void Worker::leave_to_others(Stream& stream) {
  const auto end = Clock::now() + kPatience;
  while (Clock::now() < end) {
    {
      const std::lock_guard lock(stream.mutex_);
      if (stream.busy_ || !stream.has_front()) return;
    }
    std::this_thread::yield();
  }
}

// Until a handler that it has called forks: the child has no worker, and ends with this thread.
void Worker::loop() {
  const int process = detail::forks;
  while (process == detail::forks) {
    std::unique_lock lock(mutex_);
    const auto first =
        std::min_element(watched_.begin(), watched_.end(),
                         [](const auto& a, const auto& b) { return a->look_at_ < b->look_at_; });
    if (!ready_.empty()) {
      const auto stream = take(ready_, ready_.begin(), &Stream::ready_place_);
      const bool is_awaited = stream->is_awaited_;
      lock.unlock();
      at_ = stream.get();
      run_first(*stream, is_awaited);
      at_ = nullptr;
    } else if (watched_.empty()) {
      changed_.wait(lock);
    } else if (Clock::now() < (*first)->look_at_) {
      changed_.wait_until(lock, (*first)->look_at_);
    } else {
      const auto stream = take(watched_, first, &Stream::watched_place_);
      lock.unlock();
      if (const auto again = stream->finish_old()) watch(stream, *again);
    }
  }
}

void Worker::run_first(Stream& stream, bool is_awaited) {
  if (is_awaited) leave_to_others(stream);
  std::unique_lock lock(stream.mutex_);
  // Taken by another thread: whoever holds it asks again on release.
  if (!stream.busy_ && stream.has_front()) stream.run_front(lock);
}

void start_worker() { Worker::instance().start(); }

}  // namespace traingraph
