#pragma once

#include <cublasLt.h>
#include <cudnn.h>

// What kernels need of the device they are made for.
namespace traingraph::cuda {

struct Context {
  int device;
  int multiprocessors;
  bool clusters;  // whether blocks can be launched in clusters
  cublasLtHandle_t blas;
  cudnnHandle_t dnn;
};

}  // namespace traingraph::cuda
