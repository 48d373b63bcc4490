// TF32 tensor-core instructions (mma) and the asynchronous copies that feed them. For .cu files
// only.
#pragma once

#include <cstdint>

namespace traingraph::cuda {

// Asynchronous copy of 16 bytes from global to shared memory; zeros unless `there`. No thread may
// access those bytes between the preceding barrier and the one after wait_for_async_copies().
__device__ inline void copy_async(void* to, const void* from, bool there) {
#if __CUDA_ARCH__ >= 800
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from),
               "r"(there ? 16 : 0));
#endif
}

// The same of four bytes, on every device.
__device__ inline void copy_float_async(float* to, const float* from, bool there) {
#if __CUDA_ARCH__ >= 800
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from),
               "r"(there ? 4 : 0));
#else
  *to = there ? *from : 0;
#endif
}

// Waits for all asynchronous copies of this thread.
__device__ inline void wait_for_async_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Groups of copies: those since the last commit, and a wait for all but the last kOthers.
__device__ inline void commit_async_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int kOthers>
__device__ inline void wait_for_async_copies_before() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(kOthers) : "memory");
#endif
}

// sum (16 x 8) += a (16 x 8) b (8 x 8) of a warp, operands truncated to TF32. With g = lane / 4 and
// t = lane % 4: a0, a1 are rows g and g + 8 of column t, a2, a3 the same of column t + 4; b0, b1
// rows t and t + 4 of column g; sums 0, 1 columns 2 t and 2 t + 1 of row g, 2, 3 of row g + 8.
__device__ inline void multiply_add(float (&sum)[4], float a0, float a1, float a2, float a3,
                                    float b0, float b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(__float_as_uint(a0)), "r"(__float_as_uint(a1)), "r"(__float_as_uint(a2)),
        "r"(__float_as_uint(a3)), "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
#endif
}

// Loads 64 rows of a for four products over eight columns. Lanes of one t have columns 2 t and 2 t
// + 1. `at` is row 2 g of column 2 t; columns are `pitch` floats apart in shared memory, and rows
// are contiguous. The order of rows in a product is free: rows 2 g and 2 g + 1 of each 16 are its
// rows g and g + 8. So one load reads two rows into the registers that the instruction requires.
__device__ inline void load_rows(const float* at, int pitch, float (&a)[4][4]) {
#pragma unroll
  for (int m = 0; m < 4; ++m) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const auto two = *reinterpret_cast<const float2*>(at + k * pitch + 16 * m);
      a[m][2 * k] = two.x;
      a[m][2 * k + 1] = two.y;
    }
  }
}

// The row of the 64 that is row g (half 0) or g + 8 (half 1) of product m.
__device__ inline int row_of_result(int m, int half, int g) { return 16 * m + 2 * g + half; }

}  // namespace traingraph::cuda
