#pragma once

#include "bindings.h"
#include "classes/signature.h"

namespace traingraph::python {

// The result of a block over the arguments graph, x and, where given, lengths. A thread that adds
// layers of a shared block may wait for the GIL.
TensorPtr called_in_graph(const nn::Block& block, const Arguments& given);
void bind_nn_block(py::module_& module);

}  // namespace traingraph::python
