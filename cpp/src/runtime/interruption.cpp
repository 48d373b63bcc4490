#include "runtime/interruption.h"

#include <atomic>
#include <utility>

namespace traingraph {
namespace {

std::atomic<void (*)()> check_of_waits{nullptr};

}  // namespace

void set_interruption_check(void (*check)()) { check_of_waits = check; }

void check_interruption() {
  if (void (*const check)() = check_of_waits) check();
}

void Interruptible::check() {
  if (!std::exchange(again_, true)) return;
  const auto now = std::chrono::steady_clock::now();
  if (!last_) last_ = now;
  if (now - *last_ < kMoment) return;
  last_ = now;
  check_interruption();
}

}  // namespace traingraph
