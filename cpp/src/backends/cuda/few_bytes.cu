#include "backends/cuda/few_bytes.h"

#include <cstring>

#include "backends/cuda/check.h"

namespace traingraph::cuda {
namespace {

// An argument, so that the launch itself carries the bytes.
struct Few {
  std::byte bytes[kFewBytes];
};

__global__ void __launch_bounds__(kFewBytes)
    put_bytes(std::byte* to, const __grid_constant__ Few few, unsigned count) {
  if (threadIdx.x < count) to[threadIdx.x] = few.bytes[threadIdx.x];
}

__global__ void __launch_bounds__(kFewBytes)
    copy_bytes(std::byte* to, const std::byte* from, unsigned count) {
  if (threadIdx.x < count) to[threadIdx.x] = from[threadIdx.x];
}

unsigned threads_for(std::size_t bytes) { return static_cast<unsigned>((bytes + 31) / 32 * 32); }

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

}  // namespace traingraph::cuda
