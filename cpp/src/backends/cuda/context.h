#pragma once

#include <cublasLt.h>
#include <cudnn.h>

// What kernels need of the device they are made for.
namespace traingraph::cuda {

struct Context {
  int device;
  int multiprocessors;
  int cluster_blocks;  // the most that a small program of several levels runs on
  bool early;          // kernels may begin while those that they need are still at work
  bool warpgroups;     // is 9.0, which alone has their instructions, and runs code that has them
  cublasLtHandle_t blas;
  cudnnHandle_t dnn;
};

}  // namespace traingraph::cuda
