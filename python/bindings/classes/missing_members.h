#pragma once

#include "convert/python.h"

namespace traingraph::python {

// From here on an AttributeError of the classes bound so far, of their objects and of the
// enumerations says which member may be meant.
void name_missing_members();
// For what is missing in modules, which is answered in Python.
void bind_nearest_name(py::module_& module);

}  // namespace traingraph::python
