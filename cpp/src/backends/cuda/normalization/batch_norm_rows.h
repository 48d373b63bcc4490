// Building blocks of batch norm over tensors with the channel innermost, seen as matrices (rows,
// channels). For .cu files only.
#pragma once

#include <algorithm>
#include <type_traits>

#include "backends/cuda/device/device.h"
#include "backends/cuda/normalization/batch_norm.h"

// There are two launches: partial sums over rows, then each block adds the partial sums of its
// channels and writes its share of the result. The first launch iterates from the last row to the
// first and the second one forward, so that each begins with rows that are still in the cache.
namespace traingraph::cuda {

// Blocks per multiprocessor. More blocks would leave too few registers for the numbers per channel:
// a thread has eight channels for 16-bit elements, otherwise four or two.
template <class S>
constexpr int kBlocksAtOnce = sizeof(S) == 2 ? 2 : 3;
constexpr int kMostLanes = 32;

// The channels of a thread, and its row among those that the block reads at once.
template <int kPack>
struct Place {
  int lane, row, step;  // rows at once
  std::int64_t channel;
  bool there;

  __device__ explicit Place(const Rows& plan)
      : lane(static_cast<int>(threadIdx.x) % plan.lanes),
        row(static_cast<int>(threadIdx.x) / plan.lanes),
        step(static_cast<int>(blockDim.x) / plan.lanes),
        channel((static_cast<std::int64_t>(blockIdx.x) * plan.lanes + lane) * kPack),
        there(channel < plan.channels) {}
};

// The block's numbers in `partial`: two sums per channel.
template <int kPack>
__device__ int width_of(const Rows& plan) {
  return plan.lanes * kPack * 2;
}

// Adds each thread's pairs over the block and its cluster, and writes them to
// partial (groups, clusters, width).
template <class T, int kPack>
__device__ void put(const Rows& plan, T (&a)[kPack], T (&b)[kPack], T* partial) {
  __shared__ T parts[kThreads / 32][kMostLanes * 2 * (kPack > 1 ? kPack / 2 : 1)];
  __shared__ T sums[kMostLanes * 2 * (kPack > 1 ? kPack / 2 : 1)];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int v = 0; v < kPack; ++v) {
    for (int distance = 16; distance >= plan.lanes; distance /= 2) {
      a[v] += __shfl_xor_sync(0xffffffffu, a[v], distance);
      b[v] += __shfl_xor_sync(0xffffffffu, b[v], distance);
    }
    if (lane < plan.lanes) {
      parts[warp][(lane * kPack + v) * 2] = a[v];
      parts[warp][(lane * kPack + v) * 2 + 1] = b[v];
    }
  }
  __syncthreads();
  const int width = width_of<kPack>(plan);
  const int i = static_cast<int>(threadIdx.x);
  if (i < width) {
    T sum = T(0);
    for (int w = 0; w < kThreads / 32; ++w) sum += parts[w][i];
    sums[i] = sum;
  }
  T* const to = partial + (blockIdx.x * (gridDim.y / plan.cluster) + blockIdx.y / plan.cluster) *
                              static_cast<std::int64_t>(width);
#if __CUDA_ARCH__ >= 900
  if (plan.cluster > 1) {
    sync_cluster();
    if (blockIdx.y % plan.cluster == 0 && i < width) {
      T sum = T(0);
      for (unsigned other = 0; other < static_cast<unsigned>(plan.cluster); ++other) {
        sum += *cluster_shared(sums + i, other);
      }
      to[i] = sum;
    }
    sync_cluster();  // the shared memory of other blocks must exist until then
    return;
  }
#endif
  if (i < width) to[i] = sums[i];
}

// Adds the partial sums of the block's channels: sums[2 j] and sums[2 j + 1] for its channel j.
template <class T, int kPack>
__device__ double* sums_of(const Rows& plan, const T* partial) {
  __shared__ double parts[kThreads];
  __shared__ double sums[kMostLanes * 2 * (kPack > 1 ? kPack / 2 : 1)];
  const int width = width_of<kPack>(plan);
  const int i = static_cast<int>(threadIdx.x) % width, q = static_cast<int>(threadIdx.x) / width;
  const int shares = kThreads / width;
  const T* const from = partial + blockIdx.x * plan.parts / plan.cluster * width;
  double sum = 0;
  if (q < shares) {
#pragma unroll 4
    for (std::int64_t part = q; part < plan.parts / plan.cluster; part += shares) {
      sum += static_cast<double>(from[part * width + i]);
    }
  }
  parts[threadIdx.x] = sum;
  __syncthreads();
  if (q == 0) {
    for (int other = 1; other < shares; ++other) sum += parts[other * width + i];
    sums[i] = sum;
  }
  __syncthreads();
  return sums;
}

constexpr int kMostChannels = 64;  // per block

// Numbers per channel of a block. One thread computes those of a channel, by f(channel of the
// block, channel, numbers), for all threads.
template <class T, int kPack, int kNumbers, class F>
__device__ const T (*per_channel(const Rows& plan, F&& f)) [kNumbers] {
  __shared__ T numbers[kMostChannels][kNumbers];
  const int c = static_cast<int>(threadIdx.x), channels = plan.lanes * kPack;
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * channels + c;
  if (c < channels && channel < plan.channels) f(c, channel, numbers[c]);
  __syncthreads();
  return numbers;
}

// Calls f with the first of this thread's rows in each tile, from the last tile to the first. A
// tile has kRows rows per thread, `step` apart.
template <int kRows, class F>
__device__ void for_each_tile(const Rows& plan, int step, int row, F&& f) {
  const std::int64_t tile = static_cast<std::int64_t>(step) * kRows;
  const std::int64_t tiles = (plan.rows + tile - 1) / tile;
  for (std::int64_t t = blockIdx.y; t < tiles; t += gridDim.y) {
    f((tiles - 1 - t) * tile + row);
  }
}

// Iterates from the first tile to the last over the data that `load` returns for a thread's rows.
// The constructor starts loading the first tile, so that work before for_each overlaps with it.
// load(plan.rows) reads nothing.
template <int kRows, class Load>
class LoadedTiles {
 public:
  template <class P>
  __device__ LoadedTiles(const Rows& plan, const P& place, Load load)
      : load_(load),
        tile_(static_cast<std::int64_t>(place.step) * kRows),
        row_(blockIdx.y * tile_ + place.row),
        loaded_(load(place.there ? row_ : plan.rows)) {}

  template <class F>
  __device__ void for_each(const Rows& plan, F&& f) {
    for (std::int64_t row = row_; row < plan.rows; row += gridDim.y * tile_) {
      if (row != row_) loaded_ = load_(row);
      f(row, loaded_);
    }
  }

 private:
  Load load_;
  std::int64_t tile_, row_;
  decltype(std::declval<Load>()(0)) loaded_;
};

// 16-bit elements: there are more of them per byte, so each may cost few instructions. Their
// rounding allows shorter formulas, and selections work on pairs.
template <class S>
constexpr bool kShort = sizeof(S) == 2;

__device__ inline __nv_bfloat162 two(const __nv_bfloat16* pair) {
  return *reinterpret_cast<const __nv_bfloat162*>(pair);
}
__device__ inline __half2 two(const __half* pair) {
  return *reinterpret_cast<const __half2*>(pair);
}

// ReLU in place.
template <class S, int kPack>
__device__ void apply_relu(Pack<S, kPack>& pack) {
  if constexpr (kShort<S> && kPack > 1) {
#pragma unroll
    for (int v = 0; v < kPack; v += 2) {
      const auto pair = two(pack.element + v);
      const unsigned zero = 0;
      const auto kept = __hmax2_nan(pair, two(reinterpret_cast<const S*>(&zero)));
      *reinterpret_cast<unsigned*>(pack.element + v) = *reinterpret_cast<const unsigned*>(&kept);
    }
  } else {
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      const Compute<S> value = widen(pack.element[v]);
      pack.element[v] = narrow<S>(value < Compute<S>(0) ? Compute<S>(0) : value);
    }
  }
}

// x + y, rounded once.
template <class S, int kPack>
__device__ Pack<S, kPack> sum_of(const Pack<S, kPack>& x, const Pack<S, kPack>& y) {
  auto sum = widen(x);
  const auto other = widen(y);
#pragma unroll
  for (int v = 0; v < kPack; ++v) sum.element[v] += other.element[v];
  return narrow<S>(sum);
}

// Sets dy to 0 where the result is at or below 0.
template <class S, int kPack>
__device__ void apply_mask(Pack<S, kPack>& dy, const Pack<S, kPack>& result) {
  if constexpr (kShort<S> && kPack > 1) {
#pragma unroll
    for (int v = 0; v < kPack; v += 2) {
      const unsigned zero = 0;
      *reinterpret_cast<unsigned*>(dy.element + v) &=
          __hgtu2_mask(two(result.element + v), two(reinterpret_cast<const S*>(&zero)));
    }
  } else {
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      if (widen(result.element[v]) <= Compute<S>(0)) dy.element[v] = narrow<S>(Compute<S>(0));
    }
  }
}

// The ReLU mask has a bit per element (ir::BatchNormAttributes). A pack of 16-bit elements has one
// byte of it. A pack of float32 has half a byte; the neighbouring lane has the other half.
template <class S, int kPack>
constexpr bool kHasReluMask = kPack == (kShort<S> ? 8 : 4) && sizeof(S) <= 4;

// Writes the mask of the pack at this element offset.
template <class S, int kPack>
__device__ void store_relu_mask(std::uint8_t* relu_mask, std::int64_t at,
                                const Pack<S, kPack>& result) {
  unsigned bits = 0;
  if constexpr (kShort<S>) {
    const unsigned zero = 0;
#pragma unroll
    for (int v = 0; v < kPack; v += 2) {
      bits |= __hgtu2_mask(two(result.element + v), two(reinterpret_cast<const S*>(&zero))) &
              (0x20001u << v);
    }
    relu_mask[at / kPack] = static_cast<std::uint8_t>(bits | bits >> 16);
  } else {
#pragma unroll
    for (int v = 0; v < kPack; ++v) bits |= (result.element[v] <= S(0) ? 0u : 1u) << v;
    const unsigned pair = 3u << (threadIdx.x % 32 & ~1u);
    const unsigned other = __shfl_xor_sync(pair, bits, 1);
    if (threadIdx.x % 2 == 0) relu_mask[at / 8] = static_cast<std::uint8_t>(bits | other << 4);
  }
}

// The mask of a pack in the lowest bits, from the byte or the word that contains them.
template <int kPack>
__device__ unsigned relu_mask_in(std::uint8_t byte, std::int64_t at) {
  return kPack == 8 ? byte : byte >> (at & 4);
}
template <int kPack>
__device__ unsigned relu_mask_in(std::uint32_t word, std::int64_t at) {
  return word >> (at & 31);
}

// Sets dy to 0 where the mask is not set.
template <class S, int kPack>
__device__ void apply_relu_mask(Pack<S, kPack>& dy, unsigned relu_mask) {
  if constexpr (kShort<S>) {
    const unsigned spread =
        (relu_mask & 0xffu) | relu_mask << 15;  // neighbouring elements are 16 bits apart
#pragma unroll
    for (int v = 0; v < kPack; v += 2) {
      *reinterpret_cast<unsigned*>(dy.element + v) &= (spread >> v & 0x10001u) * 0xffffu;
    }
  } else {
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      if ((relu_mask >> v & 1u) == 0) dy.element[v] = S(0);
    }
  }
}

// A term of the sum of dy z. For 16 bits the factor inverse_deviation is applied to the sum, which
// saves arithmetic. For float32 the products would overflow if x is large.
template <class S>
__device__ Compute<S> product(Compute<S> dy, Compute<S> distance, Compute<S> inverse_deviation) {
  return kShort<S> ? dy * distance : dy * (distance * inverse_deviation);
}
template <class S>
__device__ Compute<S> product_sum(Compute<S> sum, Compute<S> inverse_deviation) {
  return kShort<S> ? sum * inverse_deviation : sum;
}

// The four numbers of dx = scale (dy - dbeta / M - (x - mean) inverse_deviation dgamma / M) in one
// channel, from its sums dbeta and dgamma over M elements.
template <class S>
__device__ void put_slope(const double* sums, std::int64_t rows, Compute<S> mean, Compute<S> gamma,
                          Compute<S> inverse_deviation, Compute<S>* to) {
  using T = Compute<S>;
  const auto count = static_cast<double>(rows);
  to[0] = mean;
  to[1] = gamma * inverse_deviation;
  to[2] = static_cast<T>(sums[0] / count);
  to[3] = static_cast<T>(sums[1] / count) * inverse_deviation;
  if constexpr (kShort<S>) {  // dx = scale dy + slope x + dbeta
    to[2] = to[1] * (to[0] * to[3] - to[2]);
    to[3] *= -to[1];
  }
}

// These four numbers for each channel of a thread.
template <class S, int kPack>
struct Slopes {
  using T = Compute<S>;
  T mean[kPack], scale[kPack], dbeta[kPack], slope[kPack];

  template <int kNumbers>
  __device__ Slopes(const T (*numbers)[kNumbers], int lane) {
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      const T* const of = numbers[lane * kPack + v];
      mean[v] = of[0];
      scale[v] = of[1];
      dbeta[v] = of[2];
      slope[v] = of[3];
    }
  }
  __device__ T dx(int v, T dy, T x) const {
    return kShort<S> ? scale[v] * dy + (slope[v] * x + dbeta[v])
                     : scale[v] * (dy - (dbeta[v] + (x - mean[v]) * slope[v]));
  }
};

// A kernel must request dynamic shared memory above the default limit.
template <class K>
void allow_shared(K kernel, std::size_t bytes) {
  constexpr std::size_t kForAll = std::size_t{36} << 10;  // beside a kernel's static 12 KiB
  if (bytes <= kForAll) return;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        "cudaFuncSetAttribute");
}

template <class K, class... A>
void enqueue_sums(const Rows& plan, std::size_t shared_bytes, cudaStream_t stream, K kernel,
                  A... arguments) {
  allow_shared(kernel, shared_bytes);
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3(static_cast<unsigned>(plan.groups), static_cast<unsigned>(plan.parts));
  launch.blockDim = dim3(kThreads);
  launch.dynamicSmemBytes = shared_bytes;
  launch.stream = stream;
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {1, static_cast<unsigned>(plan.cluster), 1};
  launch.attrs = &cluster;
  launch.numAttrs = plan.cluster > 1 ? 1 : 0;
  check(cudaLaunchKernelEx(&launch, kernel, plan, arguments...), "batch_norm, sums");
}

template <class K, class... A>
void enqueue_apply(const Rows& plan, int rows_at_once, cudaStream_t stream, K kernel,
                   A... arguments) {
  const std::int64_t tile = static_cast<std::int64_t>(kThreads / plan.lanes) * rows_at_once;
  const std::int64_t most = (plan.rows + tile - 1) / tile;
  const std::int64_t wanted = std::max<std::int64_t>(1, plan.blocks / plan.groups);
  const dim3 blocks(static_cast<unsigned>(plan.groups),
                    static_cast<unsigned>(std::min(wanted, most)));
  kernel<<<blocks, kThreads, 0, stream>>>(plan, arguments...);
}

// Calls f with the number of elements that a thread reads at once.
template <class S, class F>
void with_pack(const Rows& plan, F&& f) {
  if (plan.packs) {
    f(std::integral_constant<int, Pack<S>::kElements>());
  } else {
    f(std::integral_constant<int, 1>());
  }
}

}  // namespace traingraph::cuda
