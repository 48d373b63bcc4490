#include "gil.h"

#include <unistd.h>

#include <traingraph/interruption.h>

#include "release.h"

namespace py = pybind11;

namespace traingraph::python {
namespace {

thread_local int released_here = 0;

// What Python throws to end a thread is caught and kept: there is nowhere to go on.
template <typename Take>
auto taken(Take take) {
  try {
    return take();
  } catch (...) {
    for (;;) pause();
  }
}

// On any thread; only the main thread's finds signals.
void check_signals() {
  if (Py_IsInitialized() == 0) return;
  if (PyGILState_Check() != 0) {
    // Who waits may be waiting for a handler that needs the lock.
    const ReleasedGil released;
    usleep(1000);
  }
  const HeldGil held;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

}  // namespace

ReleasedGil::ReleasedGil() : state_(PyEval_SaveThread()) { ++released_here; }

ReleasedGil::~ReleasedGil() {
  --released_here;
  taken([this] { PyEval_RestoreThread(state_); });
  drop_released();
}

bool ReleasedGil::here() { return released_here > 0; }

HeldGil::HeldGil() : state_(taken(PyGILState_Ensure)) {}

void bind_signals() { set_interruption_check(check_signals); }

}  // namespace traingraph::python
