#include "runtime/interruption.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include <traingraph/device.h>

namespace traingraph {
namespace {

std::atomic<void (*)()> interruption_check = nullptr;

}  // namespace

void check_interruption() {
  if (void (*const check)() = interruption_check) check();
}

void wait_until(const std::function<bool()>& try_now) {
  constexpr std::chrono::microseconds kLongestPause{20'000};
  for (std::chrono::microseconds pause{100}; !try_now();
       pause = std::min(2 * pause, kLongestPause)) {
    check_interruption();
    std::this_thread::sleep_for(pause);
  }
}

void Platform::set_interruption_check(void (*check)()) { interruption_check = check; }

}  // namespace traingraph
