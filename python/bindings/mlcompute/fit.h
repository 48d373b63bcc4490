#pragma once

#include "bindings.h"
#include "classes/signature.h"

namespace traingraph::python {

// The last result that is no loss, for all samples.
py::object predict(ExecutableGraph& self, const Arguments& given);

void def_fit(BoundClass<TrainingGraph, ExecutableGraph, std::shared_ptr<TrainingGraph>>& cls);

}  // namespace traingraph::python
