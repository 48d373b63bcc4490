#pragma once

#include "convert/python.h"

namespace traingraph::python {

// `__reduce__` of every class, for all protocols: a record by what it consists of, an object with
// an archive by what its `_reduced` gives; other objects are refused.
extern PyMethodDef pickling_methods[];

}  // namespace traingraph::python
