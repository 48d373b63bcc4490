#pragma once

#include <cublasLt.h>
#include <cudnn.h>

// Properties and library handles of the device that kernels are made for.
namespace traingraph::cuda {

struct Context {
  int device;
  const char* uuid;
  int multiprocessors;
  int cluster_blocks;     // limit of a megakernel with several levels
  bool dependent_launch;  // kernels may use programmatic dependent launch
  bool wgmma;             // compute capability 9.0, with code for sm_90a
  cublasLtHandle_t blas;
  cudnnHandle_t dnn;
};

}  // namespace traingraph::cuda
