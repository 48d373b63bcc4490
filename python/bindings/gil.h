#pragma once

#include <pybind11/pybind11.h>

namespace traingraph::python {

// Python's lock, let go for a while or held for a while. A thread that asks for it while the
// interpreter goes never returns: Python ends such a thread by unwinding its stack, which
// pybind11's own classes and the core's frames answer with std::terminate. Here it sleeps until the
// process is gone. What the core lets go of meanwhile is dropped when the lock is back (release.h).
class ReleasedGil {
 public:
  ReleasedGil();
  ~ReleasedGil();
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;
  // Whether this thread has one.
  static bool here();

 private:
  PyThreadState* state_;
};

class HeldGil {
 public:
  HeldGil();
  ~HeldGil() { PyGILState_Release(state_); }
  HeldGil(const HeldGil&) = delete;
  HeldGil& operator=(const HeldGil&) = delete;

 private:
  PyGILState_STATE state_;
};

// Raises what ends the work of this thread: on the main thread what a signal's handler raises
// (Ctrl-C), on another one that the process ends.
void check_signals();
// Makes waits of the core call that.
void bind_signals();

// Other threads come out of the core and stay where they are: what is destroyed when the process
// ends is in nobody's use. Their waits end; what computes ends first. By the thread that ends it.
void leave_process();

}  // namespace traingraph::python
