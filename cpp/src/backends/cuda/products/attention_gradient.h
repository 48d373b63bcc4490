// The gradients of attention in tiles, which compute probabilities again. For .cu files only.
#pragma once

#include "backends/cuda/products/attention_scores.h"

namespace traingraph::cuda {

// Σ dy y per query, which put(row, mean) receives. The products have the order of dy vᵀ. So where
// one key has all the probability, the gradient of its score is 0 to the bit.
template <class Tiles, class S, class F>
__device__ void means_of_rows(const Lane& lane, const S* dy, const S* y, const F& put) {
  using Products = typename Tiles::Products;
  constexpr int kGroups = Tiles::kGroups, kPitch = Tiles::kPitch;
  if constexpr (Products::kIsWarpgroup) {
    // The diagonal of the product of the warpgroup's rows.
    constexpr int kSide = Products::kSide;
    const int first = lane.warp / 4 * kSide;
    WarpSums products[1][kSide / 8];
    Products::template dot<Tiles::kFeatures>(Tiles::rows(dy, lane.warp), y + first * kPitch,
                                             products);
#pragma unroll
    for (int k = 0; k < kSide / 2; ++k) {
      const int row = lane.row<1>(0, k % 4);
      if (first + lane.column(k / 4, k % 4) == row) put(row, products[0][k / 4].of[k % 4]);
    }
  } else {
#pragma unroll
    for (int m = 0; m < kGroups; ++m) {
      const int from = (lane.warp * kGroups + m) * 16 * kPitch;
      WarpSums products[1][2];
      Products::template dot<Tiles::kFeatures>(dy + from, y + from, products);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (lane.column(0, i) == lane.g) put(lane.row<kGroups>(m, i), products[0][i / 2].of[i]);
      }
    }
  }
}

// dq, and Σ dy y per query.
template <class S, class Tiles>
__global__ void __launch_bounds__(Tiles::kThreads, Tiles::kBlocks)
    slope_of_query_rows(const __grid_constant__ AttentionTask<S> task,
                        const __grid_constant__ Slopes<S> slopes) {
  using Products = typename Tiles::Products;
  constexpr bool kFull = Products::kIsFull;
  constexpr int kFeatures = Tiles::kFeatures, kGroups = Tiles::kGroups;
  constexpr int kColumns = Tiles::kColumns, kPitch = Tiles::kPitch;
  constexpr int kCount = Tiles::kCount, kTiles = 2 * kColumns * kPitch;
  extern __shared__ __align__(16) std::byte shared[];
  S* const q = Tiles::tiles(shared);
  S* const dy = q + Tiles::kRows * kPitch;
  S* const tiles = dy + Tiles::kRows * kPitch;  // k, v, k, v
  __shared__ PerQuery<Tiles::kRows> known;
  const Place at = task.place(Tiles::kRows, task.queries);
  const Lane lane;
  load_rows_of<Tiles, Tiles::kRows>(task, at, task.q, task.queries, at.first, q);
  load_rows_of<Tiles, Tiles::kRows>(task, at, slopes.dy, task.queries, at.first, dy);
  static_assert(Tiles::kRows <= 4 * kColumns);
  load_rows_of<Tiles, Tiles::kRows>(task, at, slopes.y, task.queries, at.first, tiles);
  commit_async_copies();
  wait_for_tiles<Tiles, 0>();
  const auto own_q = Tiles::rows(q, lane.warp), own_dy = Tiles::rows(dy, lane.warp);
  means_of_rows<Tiles>(lane, dy, tiles, [&](int row, float mean) {
    if (at.first + row < task.queries) slopes.means[task.row_number(at, at.first + row)] = mean;
  });
  __syncthreads();
  for (int own = static_cast<int>(threadIdx.x); own < Tiles::kRows; own += Tiles::kThreads) {
    known.load(task, slopes, at, at.first + own, own);
  }
  load_tiles<Tiles>(task, at, task.k, task.v, task.keys, 0, tiles);
  WarpSums results[kGroups][kFeatures / 8];
  int stage = 0;
  const std::int64_t end = task.keys_of(at.first, Tiles::kRows);
  for (std::int64_t key = 0; key < end; key += kColumns, stage ^= 1) {
    if (key + kColumns < end) {
      load_tiles<Tiles>(task, at, task.k, task.v, task.keys, key + kColumns,
                        tiles + (stage ^ 1) * kTiles);
      wait_for_tiles<Tiles, 1>();
    } else {
      wait_for_tiles<Tiles, 0>();
    }
    const S* const k = tiles + stage * kTiles;
    WarpSums scores[kGroups][kCount], products[kGroups][kCount];
    Products::template dots<kFeatures>(
        own_q, k, scores, own_dy, k + kColumns * kPitch, products,
        [&] { probability<kFull, false>(task, at, lane, key, known, scores); });
    slope<false>(task, at, lane, key, known, scores, products);
    Products::template accumulate<kFeatures>(products, k, kPitch, results);
    __syncthreads();
  }
  float factors[kGroups][2];
#pragma unroll
  for (int k = 0; k < 2 * kGroups; ++k) factors[k / 2][k % 2] = task.scale;
  store_sums(task, at, lane, slopes.dq, task.queries, 0, results, factors);
}

// dk and dv. Rows of a block are keys, and columns are queries. Heads of more than kMostResults
// features have a block for each so many.
constexpr int kMostResults = 128;
template <class S, class Tiles>
__global__ void __launch_bounds__(Tiles::kThreads, Tiles::kBlocks)
    slope_of_key_rows(const __grid_constant__ AttentionTask<S> task,
                      const __grid_constant__ Slopes<S> slopes) {
  using Products = typename Tiles::Products;
  constexpr bool kFull = Products::kIsFull;
  constexpr int kFeatures = Tiles::kFeatures, kGroups = Tiles::kGroups;
  constexpr int kColumns = Tiles::kColumns, kPitch = Tiles::kPitch;
  constexpr int kCount = Tiles::kCount, kTiles = 2 * kColumns * kPitch;
  constexpr int kResults = kFeatures < kMostResults ? kFeatures : kMostResults;
  extern __shared__ __align__(16) std::byte shared[];
  S* const k = Tiles::tiles(shared);
  S* const v = k + Tiles::kRows * kPitch;
  S* const tiles = v + Tiles::kRows * kPitch;  // q, dy, q, dy
  __shared__ PerQuery<kColumns> known[2];
  const Place at = task.place(Tiles::kRows, task.keys);
  const int first_feature = static_cast<int>(blockIdx.y) * kResults;
  const Lane lane;
  const auto load = [&](std::int64_t query, int stage) {
    const int own = static_cast<int>(threadIdx.x);
    if (own < kColumns) known[stage].load(task, slopes, at, query + own, own);
    load_tiles<Tiles>(task, at, task.q, slopes.dy, task.queries, query, tiles + stage * kTiles);
  };
  load_rows_of<Tiles, Tiles::kRows>(task, at, task.k, task.keys, at.first, k);
  load_rows_of<Tiles, Tiles::kRows>(task, at, task.v, task.keys, at.first, v);
  commit_async_copies();
  // The tile of the first query that sees the first key.
  const std::int64_t begin = task.causal ? at.first / kColumns * kColumns : 0;
  load(begin, 0);
  wait_for_tiles<Tiles, 1>();
  const auto own_k = Tiles::rows(k, lane.warp), own_v = Tiles::rows(v, lane.warp);
  WarpSums dk[kGroups][kResults / 8], dv[kGroups][kResults / 8];
  int stage = 0;
  for (std::int64_t query = begin; query < task.queries; query += kColumns, stage ^= 1) {
    if (query + kColumns < task.queries) {
      load(query + kColumns, stage ^ 1);
      wait_for_tiles<Tiles, 1>();
    } else {
      wait_for_tiles<Tiles, 0>();
    }
    const S* const q = tiles + stage * kTiles;
    const S* const dy = q + kColumns * kPitch;
    WarpSums scores[kGroups][kCount], products[kGroups][kCount];
    Products::template dots<kFeatures>(own_k, q, scores, own_v, dy, products, [&] {
      probability<kFull, true>(task, at, lane, query, known[stage], scores);
    });
    slope<true>(task, at, lane, query, known[stage], scores, products);
    Products::template accumulate_both<kResults>(scores, dy + first_feature, dv, products,
                                                 q + first_feature, dk, kPitch);
    __syncthreads();
  }
  float scales[kGroups][2], ones[kGroups][2];
#pragma unroll
  for (int m = 0; m < 2 * kGroups; ++m) {
    scales[m / 2][m % 2] = task.scale;
    ones[m / 2][m % 2] = 1;
  }
  store_sums(task, at, lane, slopes.dk, task.keys, first_feature, dk, scales);
  store_sums(task, at, lane, slopes.dv, task.keys, first_feature, dv, ones);
}

// dmask, by tiles of queries and keys: the sum over samples and heads if they share the mask.
template <class S, class Tiles>
__global__ void __launch_bounds__(Tiles::kThreads, Tiles::kBlocks)
    slope_of_mask_tile(const __grid_constant__ AttentionTask<S> task,
                       const __grid_constant__ Slopes<S> slopes) {
  using Products = typename Tiles::Products;
  constexpr bool kFull = Products::kIsFull;
  constexpr int kFeatures = Tiles::kFeatures, kGroups = Tiles::kGroups;
  constexpr int kColumns = Tiles::kColumns, kPitch = Tiles::kPitch;
  constexpr int kCount = Tiles::kCount, kRows = Tiles::kRows;
  extern __shared__ __align__(16) std::byte shared[];
  S* const q = Tiles::tiles(shared);
  S* const dy = q + kRows * kPitch;
  S* const k = dy + kRows * kPitch;
  S* const v = k + kColumns * kPitch;
  __shared__ PerQuery<kRows> known;
  const std::int64_t tiles = (task.masked_keys + kColumns - 1) / kColumns;
  const std::int64_t blocks = (task.queries + kRows - 1) / kRows;
  const std::int64_t key = blockIdx.x % tiles * kColumns;
  const std::int64_t queries = blockIdx.x / tiles % blocks * kRows;
  const std::int64_t matrix = blockIdx.x / tiles / blocks;
  const bool shares = task.mask_rows == 1;
  const std::int64_t end = shares ? task.samples * task.heads : matrix + 1;
  const Lane lane;
  WarpSums results[kGroups][kCount];
  for (std::int64_t head = shares ? 0 : matrix; head < end; ++head) {
    const Place at{head / task.heads, head % task.heads, queries};
    load_rows_of<Tiles, kRows>(task, at, task.q, task.queries, queries, q);
    load_rows_of<Tiles, kRows>(task, at, slopes.dy, task.queries, queries, dy);
    for (int own = static_cast<int>(threadIdx.x); own < kRows; own += Tiles::kThreads) {
      known.load(task, slopes, at, queries + own, own);
    }
    load_tiles<Tiles>(task, at, task.k, task.v, task.keys, key, k);
    wait_for_tiles<Tiles, 0>();
    WarpSums scores[kGroups][kCount], products[kGroups][kCount];
    Products::template dots<kFeatures>(
        Tiles::rows(q, lane.warp), k, scores, Tiles::rows(dy, lane.warp), v, products,
        [&] { probability<kFull, false>(task, at, lane, key, known, scores); });
    slope<false>(task, at, lane, key, known, scores, products);
#pragma unroll
    for (int i = 0; i < 4 * kGroups * kCount; ++i) {
      results[i / 4 / kCount][i / 4 % kCount].of[i % 4] +=
          products[i / 4 / kCount][i / 4 % kCount].of[i % 4];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4 * kGroups * kCount; ++i) {
    const int m = i / 4 / kCount, j = i / 4 % kCount;
    const std::int64_t query = queries + lane.row<kGroups>(m, i % 4);
    const std::int64_t own = key + lane.column(j, i % 4);
    if (query >= task.queries || own >= task.masked_keys) continue;
    slopes.dmask[(matrix * task.queries + query) * task.masked_keys + own] =
        results[m][j].of[i % 4];
  }
}

}  // namespace traingraph::cuda
