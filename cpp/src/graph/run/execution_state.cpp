// What a handle waits for and raises, and the failures that no handle has raised.
#include "graph/run/execution_state.h"

#include <utility>

#include "runtime/memory/layout_copy.h"

namespace traingraph {

void ExecutionState::finish() {
  std::vector<std::function<void()>> waiting;
  {
    const std::lock_guard lock(mutex);
    done = true;
    waiting.swap(continuations);
  }
  for (const std::function<void()>& continuation : waiting) continuation();
}

void ExecutionState::take_result() {
  if (!is_left.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(mutex);
  if (!left) return;
  copy_between_layouts(left->type, left->layout, left->bytes.get(), {},
                       static_cast<std::byte*>(result.bytes));
  left.reset();
  is_left.store(false, std::memory_order_release);
}

void ExecutionState::raise() {
  if (error == nullptr) return;
  raised = true;
  std::rethrow_exception(error);
}

namespace {

using Failed = std::shared_ptr<ExecutionState>;

// Takes out of the list those that are `gone`, which calls it with each. What is taken goes without
// the lock, and one after another: a long list would overflow the stack.
template <class IsGone>
Failed take_out(Failed& first, const IsGone& is_gone) {
  Failed gone;
  for (Failed* at = &first; *at != nullptr;) {
    if (!is_gone(*at)) {
      at = &(*at)->next_failed;
      continue;
    }
    Failed one = std::move(*at);
    *at = std::move(one->next_failed);
    one->next_failed = std::move(gone);
    gone = std::move(one);
  }
  return gone;
}

void drop(Failed list) {
  while (list != nullptr) list = Failed(std::move(list->next_failed));
}

}  // namespace

PendingErrors::~PendingErrors() { drop(std::move(first_)); }

void PendingErrors::keep(const std::shared_ptr<ExecutionState>& failed) noexcept {
  Failed gone;
  {
    const LockUnlessLost lock(mutex_);
    if (!lock) return;
    gone = take_out(first_, [](const Failed& one) { return one->raised.load(); });
    Failed* last = &first_;
    while (*last != nullptr) last = &(*last)->next_failed;
    *last = failed;
    is_there_.store(true, std::memory_order_release);
  }
  drop(std::move(gone));
}

void PendingErrors::raise_first() {
  Failed unseen, gone;
  {
    const std::lock_guard lock(mutex_);
    gone = take_out(first_, [&unseen](const Failed& one) {
      if (one->raised) return true;
      // Nobody but this list: no handle, nor a thread that is about to raise it.
      if (one.use_count() > 1) return false;
      if (!one->raised.exchange(true) && unseen == nullptr) unseen = one;
      return true;
    });
    is_there_ = first_ != nullptr;
  }
  drop(std::move(gone));
  if (unseen != nullptr) unseen->raise();
}

}  // namespace traingraph
