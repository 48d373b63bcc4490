#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <vector>

// Memset nodes: kernels of NVIDIA's libraries clear counters first, mostly of four bytes. As a node
// between two kernels, such a memset is scheduled twice, which costs six microseconds per step on
// an H200.
namespace traingraph::cuda {

// Replaces small memset nodes of a captured graph by kernels. A memset that begins a piece of work,
// over bytes that no other work accesses, moves to one kernel before all others. `ends` are the
// last nodes of the pieces of work. used_once(to, bytes) tells whether only one of them accesses
// the bytes.
void replace_memset_nodes(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& ends,
                          const std::function<bool(const std::byte*, std::size_t)>& used_once);

}  // namespace traingraph::cuda
