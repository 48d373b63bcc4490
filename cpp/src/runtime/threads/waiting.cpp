// Records which thread waits for which, so that deadlock cycles are found; the compilation lock.
#include "runtime/threads/waiting.h"

#include <map>

#include "runtime/threads/fork_guard.h"
#include "runtime/threads/interruption.h"

namespace traingraph {
namespace {

// Never destroyed: threads may wait while the process goes.
struct Waits {
  std::mutex mutex;
  struct Wait {
    const Holder* holder;
    Awaited what;
  };
  std::map<std::thread::id, Wait> of;
};

Waits& waits() {
  static auto* const instance = new Waits;
  return *instance;
}

struct LockState {
  std::mutex mutex;
  std::condition_variable free;
  Holder holder{};
  int depth = 0;  // touched by the holder
};

LockState& compilation_lock() {
  static auto* const instance = new LockState;
  return *instance;
}

}  // namespace

WaitingFor::WaitingFor(const Holder& holder, Awaited what) {
  const std::thread::id me = std::this_thread::get_id();
  Waits& all = waits();
  const std::lock_guard lock(all.mutex);
  all.of[me] = {&holder, what};
  bool lends = false;
  std::thread::id at = holder;
  for (std::size_t steps = 0; at != me && steps < all.of.size(); ++steps) {
    const auto next = all.of.find(at);
    if (next == all.of.end()) return;
    lends = lends || next->second.what == Awaited::stream;
    at = *next->second.holder;
  }
  breaks_deadlock_ = at == me && (what == Awaited::stream || (what == Awaited::task && !lends));
}

WaitingFor::~WaitingFor() {
  Waits& all = waits();
  const std::lock_guard lock(all.mutex);
  all.of.erase(std::this_thread::get_id());
}

bool sleep(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
           const Holder& holder, Awaited what) {
  bool woken = false;
  {
    const WaitingFor waiting(holder, what);
    if (waiting.breaks_deadlock()) return false;
    woken = changed.wait_for(lock, kMoment) == std::cv_status::no_timeout;
  }
  if (woken) return true;
  lock.unlock();
  check_not_forked();
  check_interruption();
  lock.lock();
  return true;
}

CompilationLock::CompilationLock() {
  const std::thread::id me = std::this_thread::get_id();
  LockState& state = compilation_lock();
  std::unique_lock lock(state.mutex);
  while (state.holder.load() != std::thread::id() && state.holder.load() != me) {
    sleep(lock, state.free, state.holder, Awaited::compilation);
  }
  state.holder = me;
  ++state.depth;
}

CompilationLock::~CompilationLock() {
  LockState& state = compilation_lock();
  {
    const std::lock_guard lock(state.mutex);
    if (--state.depth > 0) return;
    state.holder = std::thread::id();
  }
  state.free.notify_one();
}

}  // namespace traingraph
