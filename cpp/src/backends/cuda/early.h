#pragma once

// Of kernels that begin while those that they need are still at work, so that nothing waits for a
// launch, or for what a block does before its first read. For .cu files only.
namespace traingraph::cuda {

// Before this returns, a kernel that begins early neither reads what others write nor writes
// anything. Nothing where it did not begin early.
__device__ inline void wait_for_needed() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Once all blocks have come to this, or are done, kernels that need this one may begin early. What
// they need is there when all of it is done, wherever this stands.
__device__ inline void let_others_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace traingraph::cuda
