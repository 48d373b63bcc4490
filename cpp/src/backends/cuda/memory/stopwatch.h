#pragma once

#include "backends/cuda/kernel/check.h"

namespace traingraph::cuda {

// Measures the time between two points of a stream.
class Stopwatch {
 public:
  Stopwatch() {
    check(cudaEventCreate(&start_), "cudaEventCreate");
    check(cudaEventCreate(&stop_), "cudaEventCreate");
  }
  ~Stopwatch() {
    static_cast<void>(cudaEventDestroy(start_));
    static_cast<void>(cudaEventDestroy(stop_));
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  void start(cudaStream_t stream) { check(cudaEventRecord(start_, stream), "cudaEventRecord"); }
  void stop(cudaStream_t stream) { check(cudaEventRecord(stop_, stream), "cudaEventRecord"); }
  double seconds() const {
    check(cudaEventSynchronize(stop_), "cudaEventSynchronize");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start_, stop_), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
};

}  // namespace traingraph::cuda
