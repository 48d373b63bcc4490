// Batch norm over tensors with the channel innermost, seen as matrices (rows, channels). Two
// launches: sums of parts of the rows, then every block adds the parts of its channels and writes
// its share of the result. The first goes from the last row to the first and the second back, so
// that each begins with what the one before has left in the cache.
#include <cooperative_groups.h>

#include "backends/cuda/batch_norm.h"
#include "backends/cuda/device.h"

namespace traingraph::cuda {
namespace {

constexpr int kBlocksAtOnce = 4;  // of kThreads on one multiprocessor: registers allow no more
constexpr int kMostLanes = 32;
constexpr std::int64_t kBlocksWanted = 132 * kBlocksAtOnce;

// A thread's place: which channels, and which of the rows its block reads at once.
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

// Numbers per channel of a block: two sums of each.
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
    const auto cluster = cooperative_groups::this_cluster();
    cluster.sync();
    if (blockIdx.y % plan.cluster == 0 && i < width) {
      T sum = T(0);
      for (unsigned other = 0; other < static_cast<unsigned>(plan.cluster); ++other) {
        sum += cluster.map_shared_rank(sums, other)[i];
      }
      to[i] = sum;
    }
    cluster.sync();  // until then the others' shared memory has to be there
    return;
  }
#endif
  if (i < width) to[i] = sums[i];
}

// Adds the parts of the block's channels: sums[2 j] and sums[2 j + 1] of its channel j.
template <class T, int kPack>
__device__ const double* sums_of(const Rows& plan, const T* partial) {
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

// Calls f with the first of this thread's rows of every tile, kRows rows `place.step` apart each.
template <int kRows, bool kDescending, class F>
__device__ void for_each_tile(const Rows& plan, int step, int row, F&& f) {
  const std::int64_t tile = static_cast<std::int64_t>(step) * kRows;
  const std::int64_t tiles = (plan.rows + tile - 1) / tile;
  for (std::int64_t t = blockIdx.y; t < tiles; t += gridDim.y) {
    f((kDescending ? tiles - 1 - t : t) * tile + row);
  }
}

// Elements of 16 bits: there are more of them per byte, so each may cost few instructions. Their
// own rounding allows shorter formulas, and what is a choice is made two by two.
template <class S>
constexpr bool kShort = sizeof(S) == 2;

__device__ inline __nv_bfloat162 two(const __nv_bfloat16* pair) {
  return *reinterpret_cast<const __nv_bfloat162*>(pair);
}
__device__ inline __half2 two(const __half* pair) {
  return *reinterpret_cast<const __half2*>(pair);
}

// The elements below 0 become 0.
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

// dy where the result is not at or below 0, else 0.
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

// Of x minus the channel's first element, so that a mean far from 0 costs no digits: sum and sum of
// squares.
template <class S, int kPack>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    moments(const __grid_constant__ Rows plan, const S* x, Compute<S>* partial) {
  using T = Compute<S>;
  constexpr int kRows = 4;
  const Place<kPack> place(plan);
  T sum[kPack] = {}, squares[kPack] = {};
  if (place.there) {
    const auto first = load<kPack>(x + place.channel);
    const auto shift = widen(first);
    for_each_tile<kRows, true>(plan, place.step, place.row, [&](std::int64_t row) {
      Pack<S, kPack> loaded[kRows];
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        const std::int64_t at = row + k * place.step;
        loaded[k] = at < plan.rows ? load<kPack>(x + at * plan.channels + place.channel) : first;
      }
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        const auto wide = widen(loaded[k]);
#pragma unroll
        for (int v = 0; v < kPack; ++v) {
          const T difference = wide.element[v] - shift.element[v];
          sum[v] += difference;
          squares[v] += difference * difference;
        }
      }
    });
  }
  put(plan, sum, squares, partial);
}

// Of normalize: more would not fit into the registers.
constexpr int rows_at_once(int ending) { return (ending & kAdds) != 0 ? 2 : 4; }

template <class S, int kPack, int kEnding>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    normalize(const __grid_constant__ Rows plan, Normalized<S> a, const Compute<S>* partial) {
  using T = Compute<S>;
  constexpr int kRows = rows_at_once(kEnding);
  const Place<kPack> place(plan);
  const double* const sums = sums_of<T, kPack>(plan, partial);
  if (!place.there) return;
  T high[kPack], low[kPack], scale[kPack], beta[kPack];
#pragma unroll
  for (int v = 0; v < kPack; ++v) {
    const std::int64_t c = place.channel + v;
    const Moments found(sums + (place.lane * kPack + v) * 2, static_cast<double>(widen(a.x[c])),
                        plan.rows, plan.epsilon);
    if (blockIdx.y == 0 && place.row == 0) found.write(a, c);
    high[v] = static_cast<T>(found.mean);
    low[v] = static_cast<T>(found.mean - static_cast<double>(high[v]));
    scale[v] = static_cast<T>(found.inverse_deviation * static_cast<double>(a.gamma[c]));
    beta[v] = a.beta[c];
    if constexpr (kShort<S>) {
      beta[v] =
          static_cast<T>(static_cast<double>(beta[v]) - found.mean * static_cast<double>(scale[v]));
    }
  }
  for_each_tile<kRows, false>(plan, place.step, place.row, [&](std::int64_t row) {
    Pack<S, kPack> x[kRows] = {}, added[kRows] = {};
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      const std::int64_t at = (row + k * place.step) * plan.channels + place.channel;
      if (row + k * place.step >= plan.rows) break;
      x[k] = load<kPack>(a.x + at);
      if constexpr ((kEnding & kAdds) != 0) added[k] = load<kPack>(a.added + at);
    }
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      const std::int64_t at = (row + k * place.step) * plan.channels + place.channel;
      if (row + k * place.step >= plan.rows) break;
      auto wide = widen(x[k]);
      const auto wide_added = widen(added[k]);
#pragma unroll
      for (int v = 0; v < kPack; ++v) {
        T& value = wide.element[v];
        value = kShort<S> ? value * scale[v] + beta[v]
                          : ((value - high[v]) - low[v]) * scale[v] + beta[v];
        if constexpr ((kEnding & kAdds) != 0) value += wide_added.element[v];
      }
      auto result = narrow<S>(wide);
      if constexpr ((kEnding & kRelu) != 0) apply_relu(result);
      store(a.y + at, result);
    }
  });
}

// dy and x of kRows rows, dy with the prologue relu_gradient(dy, result); zeros beyond the last.
template <class S, int kPack, int kRows, bool kMasked>
struct Pairs {
  Pack<S, kPack> dy[kRows] = {}, x[kRows] = {};

  __device__ Pairs(const Rows& plan, const Gradients<S>& a, std::int64_t row, int step,
                   std::int64_t channel) {
    Pack<S, kPack> result[kRows] = {};
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      if (row + k * step >= plan.rows) break;
      const std::int64_t at = (row + k * step) * plan.channels + channel;
      dy[k] = load<kPack>(a.dy + at);
      x[k] = load<kPack>(a.x + at);
      if constexpr (kMasked) result[k] = load<kPack>(a.result + at);
    }
    if constexpr (kMasked) {
#pragma unroll
      for (int k = 0; k < kRows; ++k) apply_mask(dy[k], result[k]);
    }
  }
};

template <class S, int kPack, bool kMasked>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    gradient_sums(const __grid_constant__ Rows plan, Gradients<S> a, Compute<S>* partial) {
  using T = Compute<S>;
  constexpr int kRows = 2;
  const Place<kPack> place(plan);
  T sum[kPack] = {}, products[kPack] = {};
  if (place.there) {
    T mean[kPack];
#pragma unroll
    for (int v = 0; v < kPack; ++v) mean[v] = a.mean[place.channel + v];
    for_each_tile<kRows, true>(plan, place.step, place.row, [&](std::int64_t row) {
      const Pairs<S, kPack, kRows, kMasked> pairs(plan, a, row, place.step, place.channel);
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        const auto dy = widen(pairs.dy[k]), x = widen(pairs.x[k]);
#pragma unroll
        for (int v = 0; v < kPack; ++v) {
          sum[v] += dy.element[v];
          products[v] += dy.element[v] * (x.element[v] - mean[v]);
        }
      }
    });
#pragma unroll
    for (int v = 0; v < kPack; ++v) products[v] *= a.inverse_deviation[place.channel + v];
  }
  put(plan, sum, products, partial);
}

template <class S, int kPack, bool kMasked>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    gradient_apply(const __grid_constant__ Rows plan, Gradients<S> a, const Compute<S>* partial) {
  using T = Compute<S>;
  constexpr int kRows = 2;
  const Place<kPack> place(plan);
  const double* const sums = sums_of<T, kPack>(plan, partial);
  if (!place.there) return;
  // dx = scale (dy - dbeta / M - (x - mean) inverse_deviation dgamma / M)
  T mean[kPack], scale[kPack], dbeta[kPack], slope[kPack];
  const double count = static_cast<double>(plan.rows);
#pragma unroll
  for (int v = 0; v < kPack; ++v) {
    const std::int64_t c = place.channel + v;
    const double* const sum = sums + (place.lane * kPack + v) * 2;
    if (blockIdx.y == 0 && place.row == 0) {
      a.dbeta[c] = static_cast<T>(sum[0]);
      a.dgamma[c] = static_cast<T>(sum[1]);
    }
    mean[v] = a.mean[c];
    scale[v] = a.gamma[c] * a.inverse_deviation[c];
    dbeta[v] = static_cast<T>(sum[0] / count);
    slope[v] = static_cast<T>(sum[1] / count) * a.inverse_deviation[c];
    if constexpr (kShort<S>) {  // dx = scale dy + slope x + dbeta
      dbeta[v] = scale[v] * (mean[v] * slope[v] - dbeta[v]);
      slope[v] *= -scale[v];
    }
  }
  for_each_tile<kRows, false>(plan, place.step, place.row, [&](std::int64_t row) {
    Pairs<S, kPack, kRows, kMasked> pairs(plan, a, row, place.step, place.channel);
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      if (row + k * place.step >= plan.rows) break;
      const auto dy = widen(pairs.dy[k]);
      auto dx = widen(pairs.x[k]);
#pragma unroll
      for (int v = 0; v < kPack; ++v) {
        T& value = dx.element[v];
        value = kShort<S> ? scale[v] * dy.element[v] + (slope[v] * value + dbeta[v])
                          : scale[v] * (dy.element[v] - (dbeta[v] + (value - mean[v]) * slope[v]));
      }
      const std::int64_t at = (row + k * place.step) * plan.channels + place.channel;
      store(a.dx + at, narrow<S>(dx));
    }
  });
}

template <class K, class... A>
void enqueue_sums(const Rows& plan, cudaStream_t stream, K kernel, A... arguments) {
  cudaLaunchConfig_t launch = {};
  launch.gridDim = dim3(static_cast<unsigned>(plan.groups), static_cast<unsigned>(plan.parts));
  launch.blockDim = dim3(kThreads);
  launch.stream = stream;
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {1, static_cast<unsigned>(plan.cluster), 1};
  launch.attrs = &cluster;
  launch.numAttrs = plan.cluster > 1 ? 1 : 0;
  check(cudaLaunchKernelEx(&launch, kernel, plan, arguments...), "batch_norm, sums");
}

dim3 apply_blocks(const Rows& plan, int rows_at_once) {
  const std::int64_t tile = static_cast<std::int64_t>(kThreads / plan.lanes) * rows_at_once;
  const std::int64_t most = (plan.rows + tile - 1) / tile;
  const std::int64_t wanted = std::max<std::int64_t>(1, kBlocksWanted / plan.groups);
  return dim3(static_cast<unsigned>(plan.groups), static_cast<unsigned>(std::min(wanted, most)));
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

}  // namespace

Rows::Rows(std::int64_t rows_in, std::int64_t channels_in, int elements_of_pack, double epsilon_in,
           bool clusters)
    : rows(rows_in),
      channels(channels_in),
      epsilon(epsilon_in),
      packs(channels_in % elements_of_pack == 0) {
  // A row's share of a block is one line of 128 bytes where there are as many channels.
  const int pack = packs ? elements_of_pack : 1;
  const int most = packs ? 8 : kMostLanes;
  while (lanes < most && static_cast<std::int64_t>(lanes) * pack < channels) lanes *= 2;
  groups = (channels + static_cast<std::int64_t>(lanes) * pack - 1) / (lanes * pack);
  const std::int64_t tile = static_cast<std::int64_t>(kThreads / lanes) * 4;
  parts = std::clamp<std::int64_t>(kBlocksWanted / std::max<std::int64_t>(1, groups), 1,
                                   std::max<std::int64_t>(1, (rows + tile - 1) / tile));
  while (clusters && cluster < 8 && cluster * 2 <= parts) cluster *= 2;
  parts = parts / cluster * cluster;
  partial = groups * (parts / cluster) * lanes * pack * 2;
}

template <class S>
void enqueue_rows(const Rows& plan, const Normalized<S>& a, int ending, Compute<S>* partial,
                  cudaStream_t stream) {
  with_pack<S>(plan, [&](auto pack) {
    constexpr int kPack = decltype(pack)::value;
    enqueue_sums(plan, stream, moments<S, kPack>, a.x, partial);
    with_ending(ending, [&](auto bits) {
      normalize<S, kPack, decltype(bits)::value>
          <<<apply_blocks(plan, rows_at_once(decltype(bits)::value)), kThreads, 0, stream>>>(
              plan, a, partial);
    });
  });
}

template <class S>
void enqueue_rows(const Rows& plan, const Gradients<S>& a, Compute<S>* partial,
                  cudaStream_t stream) {
  with_pack<S>(plan, [&](auto pack) {
    constexpr int kPack = decltype(pack)::value;
    const bool masked = a.result != nullptr;
    auto* const sums = masked ? gradient_sums<S, kPack, true> : gradient_sums<S, kPack, false>;
    auto* const apply = masked ? gradient_apply<S, kPack, true> : gradient_apply<S, kPack, false>;
    enqueue_sums(plan, stream, sums, a, partial);
    apply<<<apply_blocks(plan, 2), kThreads, 0, stream>>>(plan, a, partial);
  });
}

#define TRAINGRAPH_ROWS(S)                                                                       \
  template void enqueue_rows(const Rows&, const Normalized<S>&, int, Compute<S>*, cudaStream_t); \
  template void enqueue_rows(const Rows&, const Gradients<S>&, Compute<S>*, cudaStream_t);
TRAINGRAPH_ROWS(float)
TRAINGRAPH_ROWS(double)
TRAINGRAPH_ROWS(__half)
TRAINGRAPH_ROWS(__nv_bfloat16)
#undef TRAINGRAPH_ROWS

}  // namespace traingraph::cuda
