#pragma once

#include "backends/cuda/device/device.h"

// Tasks: the work of an op, cut into parts for one block of kThreads threads each. A kind of tasks
// is a plain struct with
//   struct Scratch                                  shared memory of a task
//   __device__ void run(int task, Scratch&) const   all threads must reach its barriers
// It runs as a separate kernel, one block per task, or as part of a megakernel (megakernel.h), with
// the same bits. For .cu files only.
namespace traingraph::cuda {

struct NoScratch {};

template <class Tasks>
__global__ void __launch_bounds__(kThreads) run_tasks(const __grid_constant__ Tasks tasks) {
  __shared__ typename Tasks::Scratch scratch;
  tasks.run(static_cast<int>(blockIdx.x), scratch);
}

}  // namespace traingraph::cuda
