#pragma once

#include <memory>

#include "backends/cuda/kernel/node_kernel.h"

namespace traingraph::cuda {

// An elementwise node of many elements as a kernel of its own, compiled at run time. Null for few
// elements, and without the compiler.
std::unique_ptr<Kernel> make_compiled_list(const ir::Graph& graph, const ir::Node& node,
                                           const Context& context);

}  // namespace traingraph::cuda
