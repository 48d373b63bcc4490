#pragma once

// Objects that __new__ gives without __init__. pybind11 takes fresh memory for one when it is read,
// and ends the process where the common base of its classes is called. Here both are TypeErrors.
namespace traingraph::python {

inline constexpr const char* kUnmade =
    "expected an object whose __init__ was called but got what __new__ gives";

// Once all classes are bound.
void refuse_unmade_objects();

}  // namespace traingraph::python
