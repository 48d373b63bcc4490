#pragma once

#include <pybind11/pybind11.h>

#include <memory>

namespace traingraph::python {

// Shares a Python object with the core, which may drop it on any thread and under its own locks.
// Without the GIL the last reference is put aside and dropped by the next thread that has it: a
// thread of the core never waits for Python.
std::shared_ptr<const void> share(pybind11::object object);

// Drops what was put aside. Needs the GIL.
void drop_released();

}  // namespace traingraph::python
