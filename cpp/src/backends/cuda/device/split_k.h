#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace traingraph::cuda {

// The reduction of split-K partial sums: sums (splits, count) → result (count), added in a fixed
// order. `count` is a multiple of 4.
void enqueue_split_k_sum(const float* sums, int splits, std::int64_t count, float* result,
                         cudaStream_t stream);

}  // namespace traingraph::cuda
