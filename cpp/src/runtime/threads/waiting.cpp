// Records which thread waits for which, so that deadlock cycles are found; the compilation lock.
#include "runtime/threads/waiting.h"

#include <map>

#include "runtime/threads/interruption.h"

namespace traingraph {
namespace {

// Never destroyed: threads may wait while the process goes.
struct Waits {
  Mutex mutex;
  struct Wait {
    const Holder* holder;
    Awaited what;
  };
  std::map<ThreadId, Wait> of;
};

Waits& waits() {
  static auto* const instance = new Waits;
  return *instance;
}

struct LockState {
  Mutex mutex;
  Condition free;
  Holder holder{};
  int depth = 0;  // touched by the holder
};

LockState& compilation_lock() {
  static auto* const instance = new LockState;
  return *instance;
}

}  // namespace

WaitingFor::WaitingFor(const Holder& holder, Awaited what) {
  const ThreadId me = this_thread();
  Waits& all = waits();
  const std::lock_guard lock(all.mutex);
  all.of[me] = {&holder, what};
  bool lends = false;
  ThreadId at = holder;
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
  const LockUnlessLost lock(all.mutex);
  if (lock) all.of.erase(this_thread());
}

bool sleep(std::unique_lock<Mutex>& lock, Condition& changed, const Holder& holder, Awaited what) {
  if (is_gone(holder)) {
    lock.unlock();
    raise_gone();
  }
  bool woken = false;
  {
    const WaitingFor waiting(holder, what);
    if (waiting.breaks_deadlock()) return false;
    woken = changed.wait_for(lock, kMoment) == std::cv_status::no_timeout;
  }
  if (woken) return true;
  lock.unlock();
  check_interruption();
  lock.lock();
  return true;
}

CompilationLock::CompilationLock() {
  const ThreadId me = this_thread();
  LockState& state = compilation_lock();
  std::unique_lock lock(state.mutex);
  while (state.holder != 0 && state.holder != me) {
    sleep(lock, state.free, state.holder, Awaited::compilation);
  }
  state.holder = me;
  ++state.depth;
}

CompilationLock::~CompilationLock() {
  LockState& state = compilation_lock();
  {
    const LockUnlessLost lock(state.mutex);
    if (!lock || --state.depth > 0) return;
    state.holder = 0;
  }
  state.free.notify_one();
}

}  // namespace traingraph
