// Scopes that release, hold or enter under the GIL, the check of signals, and the end of the
// process, at which other threads sleep.
#include "convert/gil.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <set>
#include <utility>

#include <traingraph/interruption.h>
#include <traingraph/mutex.h>

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
std::atomic<int> staying{0};
std::atomic<bool> leaving{false};
thread_local bool ends_process = false;

constexpr std::chrono::seconds kPatience{1};

// A thread that was in a call once.
struct CallingThread {
  unsigned long id = PyThread_get_thread_ident();
  int entered = 0;
  bool may_be_ended = false;  // Python may end it where it is: call_or_stay

  CallingThread();
  ~CallingThread();
};

struct CallingThreads {
  Mutex mutex;
  std::set<CallingThread*> all;
};

// Never destroyed: threads end after what is static, too.
CallingThreads& calling_threads() {
  static auto* const threads = new CallingThreads;
  return *threads;
}

CallingThread::CallingThread() {
  const std::lock_guard lock(calling_threads().mutex);
  calling_threads().all.insert(this);
}

CallingThread::~CallingThread() {
  const std::lock_guard lock(calling_threads().mutex);
  calling_threads().all.erase(this);
}

CallingThread& this_thread() {
  thread_local CallingThread thread;
  return thread;
}

void count_entered(int more) {
  entered.store(entered.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  this_thread().entered += more;
}

[[noreturn]] void stay() {
  staying += this_thread().entered;
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

// Python code that calls of other threads run ends by SystemExit.
void end_calls() {
  const std::lock_guard lock(calling_threads().mutex);
  for (const CallingThread* thread : calling_threads().all) {
    if (thread == &this_thread() || thread->entered == 0 || thread->may_be_ended) continue;
    PyThreadState_SetAsyncExc(thread->id, PyExc_SystemExit);
  }
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
  // The main thread, which Python would ask, may be in a call for long.
  drop_released();
}

HeldGil::~HeldGil() {
  count_entered(-1);
  outside_here = outside_before_;
  outside += outside_before_;
  PyGILState_Release(state_);
  if (state_ == PyGILState_UNLOCKED && is_to_stay()) stay();
}

void call_or_stay(const py::object& function, const py::tuple& arguments) {
  const bool before = std::exchange(this_thread().may_be_ended, true);
  PyObject* const result =
      taken([&] { return PyObject_CallObject(function.ptr(), arguments.ptr()); });
  this_thread().may_be_ended = before;
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
  // A frame that Python's unwinding of a thread must not pass ends that thread alone.
  static const std::terminate_handler before = std::get_terminate();
  std::set_terminate([] {
    if (is_to_stay()) stay();
    before();
  });
  const ReleasedGil released;
  const auto in_calls = [] { return entered - staying > this_thread().entered; };
  // By the clock: each look takes the lock, which a thread in Python code may hold for a while.
  auto end = std::chrono::steady_clock::now() + kPatience;
  bool ended = false;
  while (outside > 1 || in_calls()) {
    usleep(1000);
    check_signals();
    if (outside > 1 || std::chrono::steady_clock::now() < end) continue;
    if (std::exchange(ended, true)) break;
    const HeldGil held;
    end_calls();
    end += kPatience;
  }
}

void bind_signals() { set_interruption_check(check_signals); }

}  // namespace traingraph::python
