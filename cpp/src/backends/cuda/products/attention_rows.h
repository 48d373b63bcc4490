// Rows of queries, keys and values that a warp has: where its sums are, loads and stores. For .cu
// files only.
#pragma once

#include "backends/cuda/device/tensor_cores.h"
#include "backends/cuda/products/attention_tiles.h"
#include "backends/cuda/products/warp_products.h"

namespace traingraph::cuda {

// What the warps of a block have: kGroups times 16 rows each, of queries or keys. They iterate over
// tiles of kColumns of the others, two of which are in shared memory at a time. At least kBlocks
// share a multiprocessor.
template <class S, class Products_, int kFeatures_, int kGroups_, int kColumns_, int kWarps_ = 4,
          int kBlocks_ = 1>
struct Tiling {
  using Element = S;
  using Products = Products_;
  static constexpr int kFeatures = kFeatures_, kGroups = kGroups_, kColumns = kColumns_;
  static constexpr int kThreads = 32 * kWarps_, kBlocks = kBlocks_;
  static constexpr int kCount = kColumns / 8, kRows = 16 * kGroups * kWarps_;
  static constexpr int kPitch = Products::template kPitch<kFeatures>;

  // The tiles in a block's shared memory, which has kAlignment bytes more.
  __device__ static S* tiles(std::byte* shared) {
    const auto at = static_cast<std::size_t>(__cvta_generic_to_shared(shared));
    return reinterpret_cast<S*>(shared + -at % Products::kAlignment);
  }
  // The left operand of products, from a tile of kRows.
  __device__ static auto rows(const S* tile, int warp) {
    return Products::template rows<kFeatures, kGroups>(tile, warp);
  }
};

// Where a thread's sums are: rows g and g + 8 of 16, columns 2 t and 2 t + 1 of 8.
struct Lane {
  int g = static_cast<int>(threadIdx.x) % 32 / 4;
  int t = static_cast<int>(threadIdx.x) % 4;
  int warp = static_cast<int>(threadIdx.x) / 32;
  // Of the i-th of four sums of group m of the warp.
  template <int kGroups>
  __device__ int row(int m, int i) const {
    return (warp * kGroups + m) * 16 + g + i / 2 * 8;
  }
  __device__ int column(int j, int i) const { return j * 8 + t * 2 + i % 2; }
};

// How many of a tile's rows from `first` on there are, or more than a tile has.
__device__ inline int within(std::int64_t rows, std::int64_t first) {
  constexpr std::int64_t kMost = 1024;
  return static_cast<int>(rows - first < kMost ? rows - first : kMost);
}

// Loads kCount rows of one head from `first` on; zeros beyond the last row and feature.
template <class Tiles, int kCount, class S>
__device__ void load_rows_of(const AttentionTask<S>& task, const Place& at, Rows<const S> x,
                             std::int64_t rows, std::int64_t first, S* tile) {
  constexpr int kPack = 16 / sizeof(S), kPacks = Tiles::kFeatures / kPack;
  constexpr int kPitch = Tiles::kPitch;
  constexpr int kStep = Tiles::kThreads / kPacks;
  static_assert(!Tiles::Products::kIsWarpgroup || kStep % 8 == 0);  // eight rows' pieces differ
  const int column = static_cast<int>(threadIdx.x) % kPacks * kPack;
  int row = static_cast<int>(threadIdx.x) / kPacks;
  const int there = within(rows, first);
  const int features = static_cast<int>(task.features);
  const S* from = task.head(at, x, rows, first + row) + column;
  S* to = tile + Tiles::Products::template place<Tiles::kFeatures>(row, column);
#pragma unroll
  for (int i = 0; i < (kCount + kStep - 1) / kStep; ++i) {
    if (kCount % kStep != 0 && row >= kCount) break;
    if (task.has_packs) {
      const bool inside = row < there && column < features;
      copy_async(to, inside ? from : x.of, inside);
    } else {
      for (int k = 0; k < kPack; ++k) {
        to[k] = row < there && column + k < features ? from[k] : narrow<S>(0.0f);
      }
    }
    row += kStep;
    from += kStep * x.step;
    to += kStep * kPitch;
  }
}

// Over the four lanes that share a row.
__device__ inline float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ inline float row_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// Stores sums times a factor per row.
template <class S, int kGroups, int kCount>
__device__ void store_sums(const AttentionTask<S>& task, const Place& at, const Lane& lane,
                           Rows<S> to, std::int64_t rows, int first_feature,
                           const WarpSums (&sums)[kGroups][kCount],
                           const float (&factors)[kGroups][2]) {
#pragma unroll
  for (int k = 0; k < 2 * kGroups; ++k) {
    const int m = k / 2, half = k % 2;
    const std::int64_t row = at.first + lane.row<kGroups>(m, half * 2);
    if (row >= rows) continue;
    S* const from = task.head(at, to, rows, row);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const int column = first_feature + lane.column(j, 0);
      Pack<float, 2> pair;
      pair.element[0] = sums[m][j].of[half * 2] * factors[m][half];
      pair.element[1] = sums[m][j].of[half * 2 + 1] * factors[m][half];
      if (task.has_packs) {
        if (column < task.features) {
          *reinterpret_cast<Pack<S, 2>*>(from + column) = narrow<S>(pair);
        }
      } else {
        if (column < task.features) from[column] = narrow<S>(pair.element[0]);
        if (column + 1 < task.features) from[column + 1] = narrow<S>(pair.element[1]);
      }
    }
  }
}

// Loads tiles of two operands, rows of which a block iterates over.
template <class Tiles, class S>
__device__ void load_tiles(const AttentionTask<S>& task, const Place& at, Rows<const S> x,
                           Rows<const S> y, std::int64_t rows, std::int64_t first, S* tiles) {
  constexpr int kColumns = Tiles::kColumns;
  load_rows_of<Tiles, kColumns>(task, at, x, rows, first, tiles);
  load_rows_of<Tiles, kColumns>(task, at, y, rows, first, tiles + kColumns * Tiles::kPitch);
  commit_async_copies();
}

// Waits for all groups of copies but the last kOthers, those of the other threads too.
template <class Tiles, int kOthers>
__device__ void wait_for_tiles() {
  wait_for_async_copies_before<kOthers>();
  Tiles::Products::fence();
  __syncthreads();
}

}  // namespace traingraph::cuda
