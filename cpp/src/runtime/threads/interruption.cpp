#include "runtime/threads/interruption.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

namespace traingraph {
namespace {

std::atomic<void (*)()> check_of_waits{nullptr};
thread_local Interruptible* compilation = nullptr;

}  // namespace

void set_interruption_check(void (*check)()) { check_of_waits = check; }

bool waits_may_be_interrupted() { return check_of_waits != nullptr; }

void check_interruption() {
  if (void (*const check)() = check_of_waits) check();
}

void wait_until(const std::function<bool()>& try_now) {
  constexpr std::chrono::microseconds kLongestPause{20'000};
  for (std::chrono::microseconds pause{100}; !try_now();
       pause = std::min(2 * pause, kLongestPause)) {
    check_interruption();
    std::this_thread::sleep_for(pause);
  }
}

void Interruptible::check() {
  if (!std::exchange(again_, true)) return;
  const auto now = std::chrono::steady_clock::now();
  if (!last_) last_ = now;
  if (now - *last_ < kMoment) return;
  last_ = now;
  check_interruption();
}

InterruptibleCompilation::InterruptibleCompilation() : before_(compilation) { compilation = &now_; }
InterruptibleCompilation::~InterruptibleCompilation() { compilation = before_; }

void check_compilation() {
  if (compilation != nullptr) compilation->check();
}

}  // namespace traingraph
