#pragma once

#include <pybind11/pybind11.h>

#include <memory>

namespace traingraph::python {

// A Python object that the core shares in, as the deleter of its shared pointer, with one
// reference.
struct Kept {
  PyObject* object;

  // From now on None stands for the object, which a collection takes (collector.h).
  void let_go();
  void operator()(const void*) const;
};

// Shares a Python object with the core, which may drop it on any thread and under its own locks.
// Without the GIL the last reference is put aside and dropped by the next thread that has it, where
// this one let it go as soon as it has it back: a thread of the core never waits for Python.
std::shared_ptr<const void> share(pybind11::object object);

// What was shared; None where a collection has taken it. Needs the GIL.
pybind11::object shared_object(const std::shared_ptr<const void>& shared);

// Null for what no call of share() gave.
Kept* kept_by(const std::shared_ptr<const void>& shared);

// Drops what was put aside. Needs the GIL.
void drop_released();

}  // namespace traingraph::python
