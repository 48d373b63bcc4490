#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

// Few bytes between the host and the device, moved by a kernel: between two runs a copy engine
// would take its turn, which costs several microseconds more.
namespace traingraph::cuda {

constexpr std::size_t kFewBytes = 256;

// Enqueues; `from`, in host memory, has been read when it returns.
void write_few_bytes(std::byte* to, const void* from, std::size_t bytes, cudaStream_t stream);
// Enqueues; `to` is pinned host memory.
void read_few_bytes(std::byte* to, const std::byte* from, std::size_t bytes, cudaStream_t stream);

// What the node that one of them was recorded as is to do when the run is launched from now on;
// nothing for 0 bytes.
void set_write(cudaGraphExec_t run, cudaGraphNode_t node, std::byte* to, const void* from,
               std::size_t bytes);
void set_read(cudaGraphExec_t run, cudaGraphNode_t node, std::byte* to, const std::byte* from,
              std::size_t bytes);

}  // namespace traingraph::cuda
