#pragma once

#include "backends/cuda/device.h"

// Work cut into tasks, each for a group of kThreads threads. A kind of tasks is a plain struct with
//   struct Scratch                                  shared memory of a task
//   __device__ void run(int task, Scratch&) const   no thread may leave a barrier out
// It runs as a kernel of its own, a block per task, or as a part of a small program
// (small_program.h), with the same bits. For .cu files only.
namespace traingraph::cuda {

struct NoScratch {};

// A block may have several groups of threads, each with a task of its own. This thread's number in
// its group, and a barrier of the group.
template <int kGroup = kThreads>
__device__ int group_thread() {
  return static_cast<int>(threadIdx.x) % kGroup;
}
template <int kGroup = kThreads>
__device__ void wait_for_group() {
  const int barrier = 1 + static_cast<int>(threadIdx.x) / kGroup;
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kGroup) : "memory");
}

template <class Tasks>
__global__ void __launch_bounds__(kThreads) run_tasks(const __grid_constant__ Tasks tasks) {
  __shared__ typename Tasks::Scratch scratch;
  tasks.run(static_cast<int>(blockIdx.x), scratch);
}

}  // namespace traingraph::cuda
