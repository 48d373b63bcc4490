#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "runtime/device_memory.h"

namespace traingraph::cuda {

// Enqueues Backend::gather_rows.
void enqueue_gather(std::byte* to, const RowTable& rows, const std::int64_t* places,
                    std::size_t count, cudaStream_t stream);

}  // namespace traingraph::cuda
