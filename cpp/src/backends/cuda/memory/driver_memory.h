#pragma once

#include <cstddef>
#include <string>

namespace traingraph::cuda {

// The memory of the GPU with this UUID that all processes hold, according to NVIDIA's management
// library (NVML). Works before a context exists; 0 without the library.
std::size_t used_device_memory(const std::string& uuid);

}  // namespace traingraph::cuda
