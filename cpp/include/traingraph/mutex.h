// Mutexes, conditions and labels of a process that may be forked while other threads have them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>

#include <traingraph/export.h>

namespace traingraph {

namespace detail {

// How often the process was forked from another one: 0 in most.
extern TRAINGRAPH_API std::atomic<int> forks;
[[noreturn]] TRAINGRAPH_API void refuse_lost_lock();
// One first use at a time: whoever then holds a mutex that this process has not used is a thread of
// a parent.
TRAINGRAPH_API std::mutex& first_uses();

// A mutex that no forked child waits for in vain. In the child only the thread that has forked goes
// on, so what another one held stays locked for ever, and what it guards may be half changed.
template <class Native>
class ForkAware {
 public:
  ForkAware() = default;
  ForkAware(const ForkAware&) = delete;
  ForkAware& operator=(const ForkAware&) = delete;

  // Raises DeviceError where a thread of a parent held it at the fork: so at the first use of a
  // mutex in a process, and never after one that succeeds.
  void lock() {
    if (!lock_unless_lost()) refuse_lost_lock();
  }
  bool try_lock() {
    if (!is_stale()) return native_.try_lock();
    lock();
    return true;
  }
  void unlock() { native_.unlock(); }
  // False, without the lock, where lock() would raise.
  bool lock_unless_lost() noexcept {
    if (is_stale() && !check_first_use()) return false;
    native_.lock();
    return true;
  }

 private:
  friend class ForkAwareCondition;
  bool is_stale() const {
    const int now = forks.load(std::memory_order_relaxed);
    return now != 0 && used_in_.load(std::memory_order_acquire) != now;
  }
  bool check_first_use() noexcept {
    const std::lock_guard one(first_uses());
    if (!is_stale()) return true;
    if (!native_.try_lock()) return false;
    native_.unlock();
    used_in_.store(forks, std::memory_order_release);
    return true;
  }

  Native native_;
  std::atomic<int> used_in_{0};  // a value of `forks`
};

}  // namespace detail

using Mutex = detail::ForkAware<std::mutex>;
using RecursiveMutex = detail::ForkAware<std::recursive_mutex>;

// For what must not raise, as destructors: no lock where lock() would raise.
class LockUnlessLost {
 public:
  explicit LockUnlessLost(Mutex& mutex) noexcept
      : mutex_(mutex.lock_unless_lost() ? &mutex : nullptr) {}
  ~LockUnlessLost() {
    if (mutex_ != nullptr) mutex_->unlock();
  }
  LockUnlessLost(const LockUnlessLost&) = delete;
  LockUnlessLost& operator=(const LockUnlessLost&) = delete;
  explicit operator bool() const { return mutex_ != nullptr; }

 private:
  Mutex* mutex_;
};

// Does something once in a process and its children: again where it has raised.
class Once {
 public:
  template <class Work>
  void call(Work&& work) {
    if (is_done()) return;
    const std::lock_guard lock(mutex_);
    if (is_done()) return;
    work();
    done_.store(true, std::memory_order_release);
  }
  bool is_done() const { return done_.load(std::memory_order_acquire); }

 private:
  Mutex mutex_;
  std::atomic<bool> done_{false};
};

namespace detail {

// In a child, what threads of a parent have left in a condition variable is forgotten: they would
// be waited for.
class TRAINGRAPH_API ForkAwareCondition {
 public:
  ForkAwareCondition();
  ~ForkAwareCondition();
  ForkAwareCondition(const ForkAwareCondition&) = delete;
  ForkAwareCondition& operator=(const ForkAwareCondition&) = delete;

  void notify_one() noexcept;
  void notify_all() noexcept;
  void wait(std::unique_lock<Mutex>& lock);
  std::cv_status wait_until(std::unique_lock<Mutex>& lock,
                            std::chrono::steady_clock::time_point end);
  std::cv_status wait_for(std::unique_lock<Mutex>& lock, std::chrono::milliseconds time) {
    return wait_until(lock, std::chrono::steady_clock::now() + time);
  }
  template <class Predicate>
  void wait(std::unique_lock<Mutex>& lock, Predicate done) {
    while (!done()) wait(lock);
  }

 private:
  bool is_stale() const { return used_in_ != forks; }
  void renew();

  union {
    std::condition_variable native_;
  };
  std::atomic<int> used_in_;
};

}  // namespace detail

using Condition = detail::ForkAwareCondition;

// A name that one thread may set while others read it.
class Label {
 public:
  explicit Label(std::string text = {}) : text_(std::move(text)) {}
  std::string get() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }
  void set(std::string text) {
    const std::lock_guard lock(mutex_);
    text_.swap(text);
  }

 private:
  mutable Mutex mutex_;
  std::string text_;
};

}  // namespace traingraph
