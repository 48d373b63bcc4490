// Scopes that release, hold or enter under the GIL, the check of signals, and the end of the
// process, at which other threads sleep.
#include "convert/gil.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <utility>

#include <traingraph/interruption.h>

#include "convert/release.h"

namespace py = pybind11;

namespace traingraph::python {
namespace {

// Threads that have let the lock go and do not have it back.
std::atomic<int> outside{0};
thread_local int released_here = 0;
thread_local int outside_here = 0;  // not while it is in a handler
// Calls that threads are in, counted by whoever has the lock, and those of threads that stay.
std::atomic<int> entered{0};
thread_local int entered_here = 0;
std::atomic<int> staying{0};
std::atomic<bool> leaving{false};
thread_local bool ends_process = false;

constexpr std::chrono::seconds kPatience{1};

void count_entered(int more) {
  entered.store(entered.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  entered_here += more;
}

[[noreturn]] void stay() {
  staying += entered_here;
  outside -= outside_here;
  for (;;) pause();
}
bool is_to_stay() { return leaving.load(std::memory_order_relaxed) && !ends_process; }

void enter() {
  count_entered(1);
  if (!is_to_stay()) return;
  PyEval_SaveThread();
  stay();
}

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
  ++outside;
  ++outside_here;
  ++released_here;
  state_ = PyEval_SaveThread();
  if (is_to_stay()) stay();
}

ReleasedGil::~ReleasedGil() {
  if (is_to_stay()) stay();
  taken([this] { PyEval_RestoreThread(state_); });
  --released_here;
  --outside_here;
  --outside;
  drop_released();
}

bool ReleasedGil::here() { return released_here > 0; }

EnteredCall::EnteredCall() { enter(); }

EnteredCall::~EnteredCall() { count_entered(-1); }

HeldGil::HeldGil() : state_(taken(PyGILState_Ensure)), outside_before_(outside_here) {
  outside -= std::exchange(outside_here, 0);
  enter();
}

HeldGil::~HeldGil() {
  count_entered(-1);
  outside_here = outside_before_;
  outside += outside_before_;
  PyGILState_Release(state_);
  if (is_to_stay()) stay();
}

void call_or_stay(const py::object& function, const py::tuple& arguments) {
  PyObject* const result =
      taken([&] { return PyObject_CallObject(function.ptr(), arguments.ptr()); });
  if (result == nullptr) throw py::error_already_set();
  Py_DECREF(result);
}

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
  const auto in_calls = [] { return entered - staying > entered_here; };
  // By the clock: each look takes the lock, which a thread in Python code may hold for a while.
  const auto end = std::chrono::steady_clock::now() + kPatience;
  const auto is_over = [end] { return std::chrono::steady_clock::now() >= end; };
  while (outside > 1 || (in_calls() && !is_over())) {
    usleep(1000);
    check_signals();
  }
}

void bind_signals() { set_interruption_check(check_signals); }

}  // namespace traingraph::python
