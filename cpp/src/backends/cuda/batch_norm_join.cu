// The sum that a gradient of batch norm begins with, for kernels that read it more than once.
#include "backends/cuda/batch_norm.h"
#include "backends/cuda/device.h"

namespace traingraph::cuda {
namespace {

template <class T, bool kRelu>
__global__ void __launch_bounds__(kThreads) join(std::int64_t elements, Gradients<T> a) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       at < elements; at += step) {
    T sum = a.dy[at] + a.added[at];
    if constexpr (kRelu) sum = a.result[at] <= T(0) ? T(0) : sum;
    a.joined[at] = sum;
  }
}

}  // namespace

template <class T>
void enqueue_join(std::int64_t elements, const Gradients<T>& a, cudaStream_t stream) {
  constexpr std::int64_t kPerThread = 4;
  const unsigned blocks = blocks_for(elements, kThreads * kPerThread);
  auto* const kernel = a.result != nullptr ? join<T, true> : join<T, false>;
  kernel<<<blocks, kThreads, 0, stream>>>(elements, a);
}

template void enqueue_join(std::int64_t, const Gradients<float>&, cudaStream_t);
template void enqueue_join(std::int64_t, const Gradients<double>&, cudaStream_t);

}  // namespace traingraph::cuda
