#pragma once

#include <cuda_runtime_api.h>

#include <string>

// A failed vendor call becomes an error with the call, its code and the vendor's text.
namespace traingraph::cuda {

// OutOfMemory where a vendor found no memory, DeviceError otherwise.
[[noreturn]] void fail_call(const char* call, int code, const char* text, bool of_memory = false);

inline void check(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  fail_call(call, static_cast<int>(code), cudaGetErrorString(code),
            code == cudaErrorMemoryAllocation);
}

// Checks the preceding launch.
inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

}  // namespace traingraph::cuda
