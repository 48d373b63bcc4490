// Python's lock, let go or held for a while, signals, and the end of the process.
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

// A call from Python into the library, with the lock. Python code that it runs may be what asks for
// the lock when the interpreter goes, and is ended with this call's frames: so calls come out
// first, and new ones never begin (leave_process).
class EnteredCall {
 public:
  EnteredCall();
  ~EnteredCall();
  EnteredCall(const EnteredCall&) = delete;
  EnteredCall& operator=(const EnteredCall&) = delete;
};

// For Python code of a handler, too: it gets a second when the process ends, and its thread then
// stays, whether it comes out of that code or not.
class HeldGil {
 public:
  HeldGil();
  ~HeldGil();
  HeldGil(const HeldGil&) = delete;
  HeldGil& operator=(const HeldGil&) = delete;

 private:
  PyGILState_STATE state_;
  int outside_before_;
};

// Calls a handler, which may take longer than that second: no C++ frame is unwound where Python
// ends a thread in it.
void call_or_stay(const pybind11::object& function, const pybind11::tuple& arguments);

// Raises what ends the work of this thread: on the main thread what a signal's handler raises
// (Ctrl-C), on another one that the process ends.
void check_signals();
// Makes waits of the core call that.
void bind_signals();

// Other threads come out of the core and of the calls that they are in, and stay where they are:
// what is destroyed when the process ends is in nobody's use. Their waits end; what computes ends
// first, and Python code that calls run gets a second, then SystemExit and another one. By the
// thread that ends it.
void leave_process();

}  // namespace traingraph::python
