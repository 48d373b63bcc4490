// Mutexes and condition variables of a process that may have been forked.
#include <traingraph/mutex.h>

#include <new>

namespace traingraph::detail {

ForkAwareCondition::ForkAwareCondition() : native_(), used_in_(forks.load()) {}

ForkAwareCondition::~ForkAwareCondition() {
  if (!is_stale()) native_.~condition_variable();
}

// Under the lock, like each wait.
void ForkAwareCondition::renew() {
  new (&native_) std::condition_variable;
  used_in_ = forks.load();
}

// Where it is stale no thread of this process has waited.
void ForkAwareCondition::notify_one() noexcept {
  if (!is_stale()) native_.notify_one();
}

void ForkAwareCondition::notify_all() noexcept {
  if (!is_stale()) native_.notify_all();
}

std::cv_status ForkAwareCondition::wait_until(std::unique_lock<Mutex>& lock,
                                              std::chrono::steady_clock::time_point end) {
  if (is_stale()) renew();
  std::unique_lock native(lock.mutex()->native_, std::adopt_lock);
  const std::cv_status status = native_.wait_until(native, end);
  native.release();
  return status;
}

void ForkAwareCondition::wait(std::unique_lock<Mutex>& lock) {
  if (is_stale()) renew();
  std::unique_lock native(lock.mutex()->native_, std::adopt_lock);
  native_.wait(native);
  native.release();
}

}  // namespace traingraph::detail
