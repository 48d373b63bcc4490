// The prologue sum dy + added of a batch norm gradient, for kernels that read it more than once.
#include "backends/cuda/device/device.h"
#include "backends/cuda/normalization/batch_norm.h"

namespace traingraph::cuda {
namespace {

template <class T, bool kRelu>
__global__ void __launch_bounds__(kThreads) sum_dy(std::int64_t elements, Gradients<T> a) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       at < elements; at += step) {
    T sum = a.dy[at] + a.added[at];
    if constexpr (kRelu) sum = a.result[at] <= T(0) ? T(0) : sum;
    a.dy_sum[at] = sum;
  }
}

}  // namespace

template <class T>
void enqueue_dy_sum(std::int64_t elements, const Gradients<T>& a, cudaStream_t stream) {
  constexpr std::int64_t kPerThread = 4;
  const unsigned blocks = blocks_for(elements, kThreads * kPerThread);
  auto* const kernel = a.result != nullptr ? sum_dy<T, true> : sum_dy<T, false>;
  kernel<<<blocks, kThreads, 0, stream>>>(elements, a);
}

template void enqueue_dy_sum(std::int64_t, const Gradients<float>&, cudaStream_t);
template void enqueue_dy_sum(std::int64_t, const Gradients<double>&, cudaStream_t);

}  // namespace traingraph::cuda
