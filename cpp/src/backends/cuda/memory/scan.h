#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include <traingraph/types.h>

// Checks values on the device, so that only the answer is copied to the host.
namespace traingraph::cuda {

// Enqueues a check: *found, initially 0, becomes 1 if any of these values is NaN or infinity.
void scan_not_finite(DataType type, const std::byte* values, std::size_t bytes,
                     unsigned long long* found, cudaStream_t stream);

}  // namespace traingraph::cuda
