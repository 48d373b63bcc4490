#pragma once

#include <memory>

#include "backends/cuda/kernel/node_kernel.h"

namespace traingraph::cuda {

// The kernel of a node attention or attention_gradient on tensor cores; null for heads of more than
// 256 features and where the device has too little shared memory. `kFull`: float32 is not rounded
// to TF32. Both ops of an application get one, or none does.
template <class S, bool kFull>
std::unique_ptr<Kernel> make_tensor_core_attention(const ir::Graph& graph, const ir::Node& node,
                                                   const Context& context);

// The same for 16 bits, with WGMMA and TMA; null for heads of more than 64 features, for heads that
// are no multiples of 16 bytes, and where the device or the build lacks these instructions.
template <class S>
std::unique_ptr<Kernel> make_pipelined_attention(const ir::Graph& graph, const ir::Node& node,
                                                 const Context& context);

}  // namespace traingraph::cuda
