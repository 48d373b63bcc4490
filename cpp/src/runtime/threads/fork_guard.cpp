#include "runtime/threads/fork_guard.h"

#include <pthread.h>

#include <atomic>
#include <mutex>

#include <traingraph/errors.h>

namespace traingraph {
namespace {

std::atomic<bool> forked{false};

}  // namespace

void check_not_forked() {
  static std::once_flag installed;
  std::call_once(installed, [] { pthread_atfork(nullptr, nullptr, [] { forked = true; }); });
  if (forked.load(std::memory_order_relaxed)) {
    throw DeviceError(
        "[execute] this process was forked from one that had executed a graph, and its threads "
        "are gone; start workers with the 'spawn' method, or before the first execution");
  }
}

}  // namespace traingraph
