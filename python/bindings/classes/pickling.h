#pragma once

#include "convert/python.h"

namespace traingraph::python {

// `__reduce__` of every class, for all protocols: a record by what it consists of; other objects
// are refused.
extern PyMethodDef pickling_methods[];

}  // namespace traingraph::python
