#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <vector>

// Convolutions and products of NVIDIA's libraries begin by filling counters of their own, four
// bytes mostly. As a node between two kernels such a fill waits its turn twice: six microseconds
// of a step on the H200.
namespace traingraph::cuda {

// Lets kernels do a recorded graph's fills of few bytes. Those that begin a piece of work where
// nothing else uses their bytes are done by one kernel before all else. `ends` are the last nodes
// of the pieces of work; alone(to, bytes) tells whether only one of these uses the bytes.
void replace_fills(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& ends,
                   const std::function<bool(const std::byte*, std::size_t)>& alone);

}  // namespace traingraph::cuda
