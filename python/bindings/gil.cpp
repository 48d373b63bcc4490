#include "gil.h"

#include <unistd.h>

#include <atomic>

#include <traingraph/interruption.h>

#include "release.h"

namespace py = pybind11;

namespace traingraph::python {
namespace {

// Threads that have let the lock go and do not have it back.
std::atomic<int> outside{0};
thread_local int released_here = 0;
std::atomic<bool> leaving{false};
thread_local bool ends_process = false;

[[noreturn]] void stay() {
  for (;;) pause();
}
bool is_to_stay() { return leaving.load(std::memory_order_relaxed) && !ends_process; }

// Ends a wait of a thread that is to stay.
struct Leaving {};

// What Python throws to end a thread is caught and kept: there is nowhere to go on.
template <typename Take>
auto taken(Take take) {
  try {
    return take();
  } catch (...) {
    stay();
  }
}

}  // namespace

ReleasedGil::ReleasedGil() {
  const bool stays = is_to_stay();
  if (!stays) ++outside;
  state_ = PyEval_SaveThread();
  if (stays) stay();
  ++released_here;
}

ReleasedGil::~ReleasedGil() {
  --released_here;
  if (is_to_stay()) {
    --outside;
    stay();
  }
  taken([this] { PyEval_RestoreThread(state_); });
  --outside;
  drop_released();
}

bool ReleasedGil::here() { return released_here > 0; }

HeldGil::HeldGil() : state_(taken(PyGILState_Ensure)) {}

void check_signals() {
  if (ReleasedGil::here() && is_to_stay()) throw Leaving();
  if (Py_IsInitialized() == 0) return;
  if (PyGILState_Check() != 0) {
    // Who waits may be waiting for a handler that needs the lock.
    const ReleasedGil released;
    usleep(1000);
  }
  const HeldGil held;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

void leave_process() {
  ends_process = true;
  leaving = true;
  const ReleasedGil released;
  while (outside > 1) {
    usleep(1000);
    check_signals();
  }
}

void bind_signals() { set_interruption_check(check_signals); }

}  // namespace traingraph::python
