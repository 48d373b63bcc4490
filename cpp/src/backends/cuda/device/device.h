// Building blocks of device code: index arithmetic, packs, scalar functions, reductions. For .cu
// files only.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "backends/cuda/kernel/check.h"
#include "ir/scalar_value.h"

namespace traingraph::cuda {

constexpr int kThreads = 256;

// Blocks of `threads` for `work` items, at least one.
inline unsigned blocks_for(std::int64_t work, int threads = kThreads) {
  return static_cast<unsigned>(std::max<std::int64_t>(1, (work + threads - 1) / threads));
}

// The global index of this thread.
__device__ inline std::int64_t thread_number() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

// Division by an invariant integer: a multiplication and a shift below 2^31 (Granlund, Montgomery:
// Division by invariant integers using multiplication; PLDI 1994).
struct Divider {
  std::int64_t divisor = 1;
  std::uint32_t factor = 1;
  std::uint32_t shift = 0;

  Divider() = default;
  explicit Divider(std::int64_t d) : divisor(d) {
    if (d < 1 || d > std::numeric_limits<std::int32_t>::max()) return;
    while ((std::int64_t{1} << shift) < d) ++shift;
    const std::uint64_t above = (std::uint64_t{1} << shift) - static_cast<std::uint64_t>(d);
    factor = static_cast<std::uint32_t>((above << 32) / static_cast<std::uint64_t>(d) + 1);
  }
  __device__ std::int64_t divide(std::int64_t n) const {
    if (((n | divisor) >> 31) != 0) return n / divisor;
    const auto low = static_cast<std::uint32_t>(n);
    return (__umulhi(factor, low) + low) >> shift;
  }
  // The same for numbers and divisors below 2^31.
  __device__ std::uint32_t divide_narrow(std::uint32_t n) const {
    return (__umulhi(factor, n) + n) >> shift;
  }
  __device__ std::uint32_t split_narrow(std::uint32_t& n) const {
    const std::uint32_t quotient = divide_narrow(n);
    const std::uint32_t rest = n - quotient * static_cast<std::uint32_t>(divisor);
    n = quotient;
    return rest;
  }
  // Leaves the quotient in n and returns the remainder.
  __device__ std::int64_t split(std::int64_t& n) const {
    const std::int64_t quotient = divide(n);
    const std::int64_t rest = n - quotient * divisor;
    n = quotient;
    return rest;
  }
};

// The offset of an element in a strided tensor of up to eight axes, from its row-major number.
struct Walk {
  static constexpr int kAxes = 8;
  int rank = 0;
  Divider extents[kAxes];
  std::int64_t strides[kAxes] = {};

  // Appends an inner axis. It merges with the previous axis if both are contiguous.
  void add(std::int64_t extent, std::int64_t stride) {
    if (extent == 1) return;
    if (rank > 0 && strides[rank - 1] == stride * extent) {
      extents[rank - 1] = Divider(extents[rank - 1].divisor * extent);
      strides[rank - 1] = stride;
      return;
    }
    extents[rank] = Divider(extent);
    strides[rank++] = stride;
  }
  __device__ std::int64_t offset(std::int64_t element) const {
    std::int64_t result = 0;
    for (int axis = rank - 1; axis > 0; --axis) {
      result += extents[axis].split(element) * strides[axis];
    }
    return rank > 0 ? result + element * strides[0] : 0;
  }
};

// The scalar table's functions on a device.
struct DeviceMath {
#define TRAINGRAPH_MATH(name)              \
  template <class T>                       \
  __host__ __device__ static T name(T x) { \
    return ::name(x);                      \
  }
  TRAINGRAPH_MATH_OF_ONE(TRAINGRAPH_MATH)
#undef TRAINGRAPH_MATH
  template <class T>
  __host__ __device__ static T pow(T x, T y) {
    return ::pow(x, y);
  }
  template <class T>
  __host__ __device__ static T gelu_derivative(T x) {
    return ir::scalar::gelu_derivative<DeviceMath>(x);
  }
};

template <class T>
__device__ T infinity() {
  return static_cast<T>(__longlong_as_double(0x7ff0000000000000LL));
}

// A cluster barrier. Writes before the arrival are visible to all blocks of the cluster after the
// wait. On devices without clusters a block is alone.
__device__ inline void arrive_at_cluster() {
#if __CUDA_ARCH__ >= 900
  __cluster_barrier_arrive();
#endif
}
__device__ inline void wait_for_cluster() {
#if __CUDA_ARCH__ >= 900
  __cluster_barrier_wait();
#else
  __syncthreads();
#endif
}
__device__ inline void sync_cluster() {
  arrive_at_cluster();
  wait_for_cluster();
}

// The same address in the shared memory of another block of the cluster.
template <class T>
__device__ const T* cluster_shared(const T* here, [[maybe_unused]] unsigned block) {
#if __CUDA_ARCH__ >= 900
  return static_cast<const T*>(__cluster_map_shared_rank(const_cast<T*>(here), block));
#else
  return here;
#endif
}

// Neighbouring elements that one instruction loads or stores: 16 bytes by default.
template <class T, int kCount = 16 / static_cast<int>(sizeof(T))>
struct alignas(kCount * sizeof(T)) Pack {
  static constexpr int kElements = kCount;
  T element[kElements];

  __device__ T& at(int v) { return element[v]; }
  __device__ T at(int v) const { return element[v]; }
};

template <int kElements, class T>
__device__ Pack<T, kElements> load(const T* from) {
  return *reinterpret_cast<const Pack<T, kElements>*>(from);
}
template <class T, int kElements>
__device__ void store(T* to, const Pack<T, kElements>& pack) {
  *reinterpret_cast<Pack<T, kElements>*>(to) = pack;
}

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

// Like std::max(a, b): ignores a NaN in b.
struct Largest {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

// Reduces one value per thread over groups of `kLanes` neighbouring threads in a fixed order. All
// threads of a group receive the result. kLanes is 1, a warp, or a whole block of kThreads.
template <int kLanes, class T, class F>
__device__ T combine(T value, F f) {
  static_assert(kLanes == 1 || kLanes == 32 || kLanes == kThreads);
  if constexpr (kLanes > 1) {
    for (int distance = 16; distance > 0; distance /= 2) {
      value = f(value, __shfl_xor_sync(0xffffffffu, value, distance));
    }
  }
  if constexpr (kLanes == kThreads) {
    __shared__ T parts[kThreads / 32];
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = parts[0];
    for (int warp = 1; warp < kThreads / 32; ++warp) value = f(value, parts[warp]);
  }
  return value;
}

}  // namespace traingraph::cuda
