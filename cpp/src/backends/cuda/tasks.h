#pragma once

#include "backends/cuda/device.h"

// Work cut into tasks, each for a block of kThreads threads. A kind of tasks is a plain struct with
//   struct Scratch                                  shared memory of a task
//   __device__ void run(int task, Scratch&) const   no thread may leave a barrier out
// It runs as a kernel of its own, a block per task, or as a part of a small program
// (small_program.h), with the same bits. For .cu files only.
namespace traingraph::cuda {

struct NoScratch {};

template <class Tasks>
__global__ void __launch_bounds__(kThreads) run_tasks(const __grid_constant__ Tasks tasks) {
  __shared__ typename Tasks::Scratch scratch;
  tasks.run(static_cast<int>(blockIdx.x), scratch);
}

}  // namespace traingraph::cuda
