// The list of calls, and the thread that makes them.
#include "distributed/background.h"

#include <system_error>
#include <utility>

#include "distributed/transport.h"
#include "runtime/threads/interruption.h"

namespace traingraph::distributed {

Background::~Background() {
  {
    const LockUnlessLost lock(mutex_);
    if (!lock) return;
    is_over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Background::loop() {
  Lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_over_ || (first_ != nullptr && !is_busy_); });
    if (is_over_) return;
    make_first(lock);
  }
}

// Where the system has no thread left, whoever waits for a call makes it.
void Background::try_to_start() {
  try {
    thread_ = std::thread([this] { loop(); });
  } catch (const std::system_error&) {
  }
}

void Background::add(Call& call) {
  call.state_ = Call::State::waits;
  call.next_ = nullptr;
  (first_ == nullptr ? first_ : last_->next_) = &call;
  last_ = &call;
}

void Background::begin(Call& call) {
  {
    const Lock lock(mutex_);
    if (!thread_.joinable()) try_to_start();
    add(call);
  }
  changed_.notify_all();
}

void Background::make(Call& call) {
  {
    const Lock lock(mutex_);
    add(call);
  }
  finish(call);
}

void Background::make_first(Lock& lock) {
  Call& call = *first_;
  first_ = call.next_;
  is_busy_ = true;
  call.state_ = Call::State::runs;
  lock.unlock();
  try {
    call.make();
  } catch (...) {
    call.error_ = std::current_exception();
  }
  lock.lock();
  is_busy_ = false;
  call.state_ = Call::State::done;
  changed_.notify_all();
}

void Background::go_on(Lock& lock) {
  if (!is_busy_ && first_ != nullptr) return make_first(lock);
  changed_.wait_for(lock, kMoment);
}

void Background::finish(Call& call) {
  Lock lock(mutex_);
  if (call.state_ == Call::State::none) return;
  while (call.state_ != Call::State::done) {
    go_on(lock);
    if (call.state_ == Call::State::done) break;
    lock.unlock();
    try {
      check_interruption();
    } catch (...) {
      abandon(call);
      throw;
    }
    lock.lock();
  }
  call.state_ = Call::State::none;
  if (call.error_ != nullptr) std::rethrow_exception(std::exchange(call.error_, nullptr));
}

void Background::abandon(Call& call) noexcept {
  Lock lock(mutex_);
  if (call.state_ == Call::State::none) return;
  if (call.state_ != Call::State::done) transport_->interrupt();
  while (call.state_ != Call::State::done) go_on(lock);
  call.state_ = Call::State::none;
  call.error_ = nullptr;
}

}  // namespace traingraph::distributed
