#pragma once

#include <cstddef>
#include <string>

namespace traingraph::cuda {

// What all processes hold of the memory of the GPU with this UUID, as NVIDIA's management library
// counts it, also before there is a context; 0 where that library is missing.
std::size_t used_device_memory(const std::string& uuid);

}  // namespace traingraph::cuda
