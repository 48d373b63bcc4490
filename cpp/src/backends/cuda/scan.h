#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include <traingraph/types.h>

// Looks through values on the device, so that four or eight bytes answer instead of all of them.
namespace traingraph::cuda {

// Enqueues: *found becomes 1 if one of these float values is NaN or infinity; it was 0.
void scan_not_finite(DataType type, const std::byte* values, std::size_t bytes,
                     unsigned long long* found, cudaStream_t stream);

}  // namespace traingraph::cuda
