#pragma once

#include <cuda_runtime_api.h>

#include <string>

// A failed vendor call becomes a DeviceError with the call, its code and the vendor's text.
namespace traingraph::cuda {

[[noreturn]] void fail_call(const char* call, int code, const char* text);

inline void check(cudaError_t code, const char* call) {
  if (code != cudaSuccess) fail_call(call, static_cast<int>(code), cudaGetErrorString(code));
}

// Checks the preceding launch.
inline void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

}  // namespace traingraph::cuda
