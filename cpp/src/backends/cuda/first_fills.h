#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <vector>

// Convolutions of cuDNN begin by filling counters of their own, four bytes mostly. Such a fill
// between two kernels takes a turn of another engine: seven microseconds of the H200's time.
namespace traingraph::cuda {

// Takes out of a recorded graph the fills that begin a piece of work where nothing else uses their
// bytes, and does them in one kernel before all else. `ends` are the last nodes of the pieces of
// work; alone(to, bytes) tells whether only one of these uses the bytes.
void fill_first(cudaGraph_t graph, const std::vector<cudaGraphNode_t>& ends,
                const std::function<bool(const std::byte*, std::size_t)>& alone);

}  // namespace traingraph::cuda
