// Streams: queues of tasks, waiting, lending to handlers, and merging of two streams.
#include "runtime/threads/stream.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <utility>

#include <traingraph/errors.h>

#include "runtime/threads/fork_guard.h"
#include "runtime/threads/interruption.h"
#include "runtime/threads/worker.h"

namespace traingraph {
namespace {

// Of which something is left: more would not keep a device busier.
constexpr std::size_t kMostBegun = 8;

// How long somebody who may wait for a begun task is left to do so.
constexpr std::chrono::milliseconds kWhile{2};

// What takes longer is worth a change of threads, for which waits can then be interrupted; and so
// many tasks must take less until the next one is expected to.
constexpr std::chrono::milliseconds kLong{20};
constexpr int kLongFor = 16;
// How long the worker may take to begin.
constexpr int kMoments = 8;

using Clock = std::chrono::steady_clock;

}  // namespace

bool Stream::acquire_idle(std::unique_lock<Mutex>& lock) {
  if (is_mine()) return false;
  if (!busy_ && tasks_.empty()) {
    hold();
    return true;
  }
  const auto turn = std::make_shared<Task>();
  turn->is_turn = true;
  turn->runner = this_thread();
  tasks_.push_back(turn);
  try {
    const bool taken = wait_for_turn(lock, turn);
    tasks_.remove(turn);
    if (taken) hold();
    return taken;
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    tasks_.remove(turn);
    const bool more = !busy_ && has_front();
    lock.unlock();
    changed_.notify_all();
    if (more) Worker::instance().enqueue(shared_from_this(), false);
    throw;
  }
}

bool Stream::wait_for_turn(std::unique_lock<Mutex>& lock, const std::shared_ptr<Task>& turn) {
  Interruptible patience;
  int moments = kMoments;
  while (busy_ || tasks_.front() != turn) {
    if (is_mine()) return false;
    if (busy_) {
      if (!sleep(lock, changed_, holder_, Awaited::stream)) return false;
      lock.unlock();
    } else if (!has_front()) {
      const std::shared_ptr<Task> first = tasks_.front();  // another thread takes it first
      sleep(lock, changed_, first->runner, Awaited::compilation);
      lock.unlock();
    } else {
      check_not_forked();
      if (!leave_front(lock, moments)) {
        run_front(lock);
        moments = kMoments;
      }
    }
    patience.check();
    lock.lock();
  }
  return true;
}

std::uint64_t Stream::held_here_since() {
  const std::lock_guard lock(mutex_);
  return is_mine() ? held_since_ : 0;
}

void Stream::hold() {
  static std::atomic<std::uint64_t> count{0};
  busy_ = true;
  holder_ = this_thread();
  held_since_ = ++count;
}

void Stream::release(std::unique_lock<Mutex>& lock) noexcept {
  if (!lock.owns_lock() && !mutex_.lock_unless_lost()) return;
  busy_ = false;
  const bool more = has_front();
  lock.owns_lock() ? lock.unlock() : mutex_.unlock();
  changed_.notify_all();
  if (more) Worker::instance().enqueue(shared_from_this(), false);
}

void Stream::run(const std::function<void()>& work) {
  std::shared_ptr<Stream> target = root(shared_from_this());
  std::unique_lock lock(target->mutex_);
  bool taken = target->acquire_idle(lock);
  // It may have been merged meanwhile.
  while (target->merged_into_ != nullptr) {
    if (taken) {
      target->release(lock);
    } else {
      lock.unlock();
    }
    target = root(target);
    lock = std::unique_lock(target->mutex_);
    taken = target->acquire_idle(lock);
  }
  lock.unlock();
  if (!taken) return work();
  try {
    work();
  } catch (...) {
    target->release(lock);
    throw;
  }
  target->release(lock);
}

void Stream::Hold::take(const std::shared_ptr<Stream>& stream) {
  Interruptible patience;
  for (;;) {
    const std::shared_ptr<Stream> now = root(stream);
    std::unique_lock lock(now->mutex_);
    if (now->merged_into_ != nullptr) continue;
    if (now->is_mine()) return;
    if (!now->busy_) {
      now->hold();
      lock.unlock();
      if (held_ != nullptr) held_->give_back();
      held_ = now;
      return;
    }
    if (!sleep(lock, now->changed_, now->holder_, Awaited::stream)) return;  // lent to this thread
    lock.unlock();
    patience.check();
  }
}

Stream::Hold::~Hold() {
  if (held_ != nullptr) held_->give_back();
}

void Stream::submit(Tasks one) {
  check_not_forked();
  start_worker();
  std::unique_lock lock(mutex_);
  if (merged_into_ != nullptr) {
    lock.unlock();
    return root(shared_from_this())->submit(std::move(one));
  }
  const bool is_first = !busy_ && tasks_.empty();
  const Task* const task = one.front().get();
  const bool runs_here = is_first && task->defers_rest && task->is_awaited;
  const bool is_awaited = task->is_awaited && !task->defers_rest;
  tasks_.splice(tasks_.end(), one);
  // Whoever holds the stream, or takes it before, asks for a thread on release.
  if (busy_ || !has_front()) return;
  if (runs_here) {
    run_front(lock);
    return;
  }
  lock.unlock();
  Worker::instance().enqueue(shared_from_this(), is_awaited);
}

bool Stream::take_if_free() {
  const std::lock_guard lock(mutex_);
  if (merged_into_ != nullptr || busy_ || !tasks_.empty() || !begun_.empty()) return false;
  hold();
  return true;
}

void Stream::give_back() noexcept {
  std::unique_lock lock(mutex_, std::defer_lock);
  release(lock);
}

bool Stream::take_place(Tasks& one) {
  check_not_forked();
  std::unique_lock lock(mutex_);
  if (merged_into_ != nullptr) {
    lock.unlock();
    return root(shared_from_this())->take_place(one);
  }
  if (is_mine()) return false;
  tasks_.splice(tasks_.end(), one);
  return true;
}

bool Stream::leave_front(std::unique_lock<Mutex>& lock, int& moments) {
  Worker& worker = Worker::instance();
  if (moments == 0 || long_for_ == 0 || tasks_.front()->defers_rest ||
      !waits_may_be_interrupted() || worker.is_elsewhere(*this)) {
    return false;
  }
  lock.unlock();
  try {
    worker.start();
  } catch (...) {
    moments = 0;  // this thread does the work then
    return true;
  }
  worker.enqueue(shared_from_this(), false);
  lock.lock();
  if (busy_ || !has_front()) {
    lock.unlock();
    return true;
  }
  const bool woken = changed_.wait_for(lock, kMoment) == std::cv_status::no_timeout;
  if (!woken && !busy_) --moments;
  lock.unlock();
  if (!woken) check_interruption();
  return true;
}

void Stream::run_front(std::unique_lock<Mutex>& lock) {
  Tasks one;
  one.splice(one.end(), tasks_, tasks_.begin());
  const std::shared_ptr<Task> task = one.front();
  hold();
  task->runner = this_thread();
  if (!task->defers_rest) finish_begun(lock, 0);
  lock.unlock();
  const Clock::time_point start = Clock::now();
  std::function<void()> rest = task->work();
  task->work = nullptr;  // it holds the caller's data, and whoever waits holds the task
  lock.lock();
  task->runner = 0;
  const bool may_remain = rest != nullptr && (task->is_awaited || has_front());
  task->rest = std::move(rest);
  task->begun = Clock::now();
  long_for_ = task->begun - start > kLong ? kLongFor : std::max(long_for_ - 1, 0);
  begun_.splice(begun_.end(), one);
  finish_begun(lock, may_remain ? kMostBegun : 0);
  const bool watch = !begun_.empty() && !std::exchange(is_watched_, true);
  release(lock);
  if (watch) Worker::instance().watch(shared_from_this(), task->begun + kWhile);
}

std::optional<Clock::time_point> Stream::finish_old() {
  std::unique_lock lock(mutex_);
  if (!busy_ && !begun_.empty() && Clock::now() - begun_.front()->begun >= kWhile) {
    hold();
    finish_begun(lock, begun_.size() - 1);
    release(lock);
    lock.lock();
  }
  is_watched_ = !begun_.empty();
  if (!is_watched_) return std::nullopt;
  return (busy_ ? Clock::now() : begun_.front()->begun) + kWhile;
}

void Stream::finish_begun(std::unique_lock<Mutex>& lock, std::size_t remain) {
  while (begun_.size() > remain) {
    const std::shared_ptr<Task> task = std::move(begun_.front());
    begun_.pop_front();
    if (task->rest != nullptr) {
      task->runner = this_thread();
      lock.unlock();
      task->rest();
      task->rest = nullptr;
      lock.lock();
      task->runner = 0;
    }
    task->done = true;
    changed_.notify_all();
  }
}

bool Stream::run_inside(std::unique_lock<Mutex>& lock) {
  const auto place = std::ranges::find(tasks_, false, &Task::is_turn);
  if (place == tasks_.end()) return false;
  const std::shared_ptr<Task> next = std::move(*place);
  tasks_.erase(place);
  next->runner = this_thread();
  lock.unlock();
  if (const std::function<void()> rest = next->work()) rest();
  next->work = nullptr;
  lock.lock();
  next->runner = 0;
  next->done = true;
  lock.unlock();
  changed_.notify_all();
  return true;
}

void Stream::wait(const std::shared_ptr<Task>& task) {
  if (task->done) return;
  check_not_forked();
  Interruptible patience;
  int moments = kMoments;
  try {
    while (!task->done) {
      root(shared_from_this())->wait_a_while(task, moments);
      patience.check();
    }
  } catch (...) {
    // Nobody may wait for it any more.
    Worker::instance().enqueue(root(shared_from_this()), false);
    try {
      start_worker();
    } catch (...) {
      // The next call that asks for a worker is given one.
    }
    throw;
  }
}

void Stream::wait_a_while(const std::shared_ptr<Task>& task, int& moments) {
  std::unique_lock lock(mutex_);
  if (task->done || merged_into_ != nullptr) return;
  const bool free = !busy_, mine = is_mine();
  const auto begun = std::find(begun_.begin(), begun_.end(), task);
  if (begun != begun_.end() && (free || mine)) {
    if (free) hold();
    finish_begun(lock, static_cast<std::size_t>(std::distance(begun, begun_.end())) - 1);
    if (free) release(lock);
    return;
  }
  if (free && has_front()) {
    if (!leave_front(lock, moments)) {
      run_front(lock);
      moments = kMoments;
    }
    return;
  }
  // A completion handler waits for later work: it runs inside the handler.
  if (mine && run_inside(lock)) return;
  const bool works = task->runner != 0;
  if (free && !works) {
    changed_.wait_for(lock, kMoment);  // another thread takes it first
    return;
  }
  const Awaited what = works ? Awaited::task : Awaited::stream;
  if (sleep(lock, changed_, works ? task->runner : holder_, what)) return;
  if (works && task->runner != 0) {
    throw InvalidArgument(
        "[wait] expected work that does not wait for this call, but got the execution of a "
        "completion handler that is not over: it would wait for itself");
  }
  if (busy_ && run_inside(lock)) return;
  changed_.wait_for(lock, kMoment);
}

std::shared_ptr<Stream> Stream::root(std::shared_ptr<Stream> stream) {
  while (Stream* next = stream->merged_into_.load(std::memory_order_acquire)) {
    stream = next->shared_from_this();
  }
  return stream;
}

void Stream::merge(const std::shared_ptr<Stream>& a, const std::shared_ptr<Stream>& b) {
  const CompilationLock compiling;  // roots stay
  std::shared_ptr<Stream> into = root(a), from = root(b);
  if (into == from) return;
  // This thread, or one that lends it `a`, works on and goes on holding what they become. Who holds
  // the other one stands in a completion handler and waits for that from then on.
  const std::uint64_t a_held = into->held_here_since(), b_held = from->held_here_since();
  if (b_held != 0 && (a_held == 0 || b_held < a_held)) std::swap(into, from);
  into->run([&] {
    from->run([&] {
      std::unique_lock lock(from->mutex_);
      from->finish_begun(lock, 0);
      lock.unlock();
      into->take_over(*from);
    });
  });
}

// At once: what another thread submits meanwhile comes here as well.
void Stream::take_over(Stream& other) {
  const std::scoped_lock lock(mutex_, other.mutex_);
  const auto turns =
      std::ranges::stable_partition(other.tasks_, std::logical_not(), &Task::is_turn);
  tasks_.splice(tasks_.end(), other.tasks_, other.tasks_.begin(), turns.begin());
  other.merged_owner_ = shared_from_this();
  other.merged_into_.store(this, std::memory_order_release);
}

}  // namespace traingraph
