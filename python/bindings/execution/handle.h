#pragma once

#include "bindings.h"

namespace traingraph::python {

// What awaiting gives: (result, seconds) or seconds alone.
enum class Outcome { kResultAndTime, kTime };

// What execute* return: one submitted execution.
class Handle {
 public:
  Handle(Execution execution, Outcome outcome)
      : execution_(std::move(execution)), outcome_(outcome) {}

  void wait() const;
  py::object result() const;
  py::object profile() const;
  py::object outcome() const;
  py::object await() const;
  bool done() const { return execution_.done(); }
  // Of the object that was made before there was anything to hand out.
  void begin(Execution execution) { execution_ = std::move(execution); }

 private:
  Execution execution_;
  Outcome outcome_;
};

// Its Python object. Every step makes one, and no C++ object is ever looked up to find it: it is
// not in the table of wrappers where py::cast would enter it.
py::object wrapper_of(Handle handle);
Handle& handle_of(const py::object& wrapper);

// The core's handler that calls Python's f(result_tensor, error, execution_time). What f raises
// goes to sys.unraisablehook.
CompletionHandler completion_handler(py::object function);

void bind_handle(py::module_& module);

}  // namespace traingraph::python
