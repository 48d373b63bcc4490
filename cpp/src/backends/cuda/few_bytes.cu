#include "backends/cuda/few_bytes.h"

#include <algorithm>
#include <cstring>

#include "backends/cuda/check.h"
#include "backends/cuda/early.h"

namespace traingraph::cuda {
namespace {

// An argument, so that the launch itself carries the bytes.
struct Few {
  std::byte bytes[kFewBytes];
};

__global__ void __launch_bounds__(kFewBytes)
    put_bytes(std::byte* to, const __grid_constant__ Few few, unsigned count) {
  let_others_begin();
  if (threadIdx.x < count) to[threadIdx.x] = few.bytes[threadIdx.x];
}

__global__ void __launch_bounds__(kFewBytes)
    copy_bytes(std::byte* to, const std::byte* from, unsigned count) {
  if (threadIdx.x < count) to[threadIdx.x] = from[threadIdx.x];
}

unsigned threads_for(std::size_t bytes) {
  return static_cast<unsigned>(std::max<std::size_t>(1, (bytes + 31) / 32) * 32);
}

// arguments: pointers to the kernel's, in order
void set_node(cudaGraphExec_t run, cudaGraphNode_t node, void* kernel, std::size_t bytes,
              void** arguments) {
  cudaKernelNodeParams set{};
  set.func = kernel;
  set.gridDim = 1;
  set.blockDim = threads_for(bytes);
  set.kernelParams = arguments;
  check(cudaGraphExecKernelNodeSetParams(run, node, &set), "cudaGraphExecKernelNodeSetParams");
}

}  // namespace

void write_few_bytes(std::byte* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  Few few;
  std::memcpy(few.bytes, from, bytes);
  put_bytes<<<1, threads_for(bytes), 0, stream>>>(to, few, static_cast<unsigned>(bytes));
  check_launch("write of few bytes");
}

void read_few_bytes(std::byte* to, const std::byte* from, std::size_t bytes, cudaStream_t stream) {
  copy_bytes<<<1, threads_for(bytes), 0, stream>>>(to, from, static_cast<unsigned>(bytes));
  check_launch("read of few bytes");
}

void set_write(cudaGraphExec_t run, cudaGraphNode_t node, std::byte* to, const void* from,
               std::size_t bytes) {
  Few few;
  if (bytes > 0) std::memcpy(few.bytes, from, bytes);
  auto count = static_cast<unsigned>(bytes);
  void* arguments[] = {&to, &few, &count};
  set_node(run, node, reinterpret_cast<void*>(put_bytes), bytes, arguments);
}

void set_read(cudaGraphExec_t run, cudaGraphNode_t node, std::byte* to, const std::byte* from,
              std::size_t bytes) {
  auto count = static_cast<unsigned>(bytes);
  void* arguments[] = {&to, &from, &count};
  set_node(run, node, reinterpret_cast<void*>(copy_bytes), bytes, arguments);
}

}  // namespace traingraph::cuda
