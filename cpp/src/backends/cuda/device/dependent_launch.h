#pragma once

// Programmatic dependent launch (PDL): a kernel may start while its predecessors still run, which
// hides its launch latency and its setup. For .cu files only.
namespace traingraph::cuda {

// Waits until all predecessors have completed and their writes are visible. A kernel with dependent
// launch neither reads nor writes shared data before. Without dependent launch it does nothing.
__device__ inline void wait_for_predecessors() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Allows dependent kernels to start once every block has called this or has exited. Their
// wait_for_predecessors() still waits for the whole kernel.
__device__ inline void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace traingraph::cuda
