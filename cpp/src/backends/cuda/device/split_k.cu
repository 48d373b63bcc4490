#include "backends/cuda/device/split_k.h"

#include "backends/cuda/device/device.h"
#include "backends/cuda/kernel/check.h"

namespace traingraph::cuda {
namespace {

// `lanes` threads of a block, `width` threads apart, share four elements.
__global__ void __launch_bounds__(kThreads)
    add_splits(std::int64_t packs, int parts, int lanes, const float4* sums, float4* result) {
  const int width = kThreads / lanes;
  const int lane = static_cast<int>(threadIdx.x) / width;
  const std::int64_t pack =
      static_cast<std::int64_t>(blockIdx.x) * width + static_cast<int>(threadIdx.x) % width;
  float4 sum = {};
  const auto add = [&sum](const float4& value) {
    sum.x += value.x, sum.y += value.y, sum.z += value.z, sum.w += value.w;
  };
  if (pack < packs) {
#pragma unroll 8
    for (int part = lane; part < parts; part += lanes) add(sums[part * packs + pack]);
  }
  __shared__ float4 shared[kThreads];
  shared[threadIdx.x] = sum;
  __syncthreads();
  if (lane > 0 || pack >= packs) return;
  for (int other = 1; other < lanes; ++other) add(shared[other * width + threadIdx.x]);
  result[pack] = sum;
}

}  // namespace

void enqueue_split_k_sum(const float* sums, int splits, std::int64_t count, float* result,
                         cudaStream_t stream) {
  const int lanes = splits >= 128 ? 16 : (splits >= 32 ? 8 : (splits >= 8 ? 2 : 1));
  add_splits<<<blocks_for(count / 4, kThreads / lanes), kThreads, 0, stream>>>(
      count / 4, splits, lanes, reinterpret_cast<const float4*>(sums),
      reinterpret_cast<float4*>(result));
  check_launch("split-K sum");
}

}  // namespace traingraph::cuda
