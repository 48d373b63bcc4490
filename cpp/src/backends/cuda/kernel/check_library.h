#pragma once

#include <cublasLt.h>
#include <cudnn.h>

#include "backends/cuda/kernel/check.h"

// Calls of NVIDIA's libraries, as check.h has those of CUDA.
namespace traingraph::cuda {

inline void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail_call(call, static_cast<int>(status), cublasLtGetStatusString(status),
            status == CUBLAS_STATUS_ALLOC_FAILED);
}

inline void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  fail_call(call, static_cast<int>(status), cudnnGetErrorString(status),
            status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
}

}  // namespace traingraph::cuda
