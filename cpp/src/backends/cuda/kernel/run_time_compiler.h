#pragma once

#include <cuda_runtime_api.h>

#include <string>

// Kernels compiled at run time by NVRTC, a library that need not be installed.
namespace traingraph::cuda {

// The kernel `name` of a source in CUDA C++ without includes, for the GPU of this number. It is
// compiled once per process and kept. Null without NVRTC, and where NVRTC does not know the GPU.
cudaKernel_t compiled_kernel(const std::string& source, const char* name, int device);

}  // namespace traingraph::cuda
