// Attention in tiles, with an online softmax. For .cu files only.
#pragma once

#include "backends/cuda/products/attention_scores.h"

namespace traingraph::cuda {

// The largest score so far and Σ e^(score - largest) of each row of a warp.
template <int kGroups>
struct OnlineSoftmax {
  float largest[kGroups][2], totals[kGroups][2] = {};

  __device__ OnlineSoftmax() {
#pragma unroll
    for (int k = 0; k < 2 * kGroups; ++k) largest[k / 2][k % 2] = -infinity<float>();
  }

  // Scores of a tile become e^(score - largest), which power(score, largest) computes. Earlier
  // results are scaled to the new largest score.
  template <int kCount, int kResults, class F>
  __device__ void add(WarpSums (&sums)[kGroups][kCount], WarpSums (&results)[kGroups][kResults],
                      const F& power) {
#pragma unroll
    for (int m = 0; m < kGroups; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float top = largest[m][half];
#pragma unroll
        for (int j = 0; j < kCount; ++j) {
          top = fmaxf(top, fmaxf(sums[m][j].of[half * 2], sums[m][j].of[half * 2 + 1]));
        }
        top = row_max(top);
        // All scores may be -inf so far, but not those of the next tile.
        const float shift = top == -infinity<float>() ? 0.0f : top;
        const float factor = power(largest[m][half], shift);
        largest[m][half] = top;
        totals[m][half] *= factor;
#pragma unroll
        for (int k = 0; k < 2 * kResults; ++k) results[m][k / 2].of[half * 2 + k % 2] *= factor;
        float total = 0;
#pragma unroll
        for (int k = 0; k < 2 * kCount; ++k) {
          float& sum = sums[m][k / 2].of[half * 2 + k % 2];
          sum = power(sum, shift);
          total += sum;
        }
        totals[m][half] += total;
      }
    }
  }

  // Stores results and what the gradient needs. `unit`: what largest scores are multiplied by.
  template <class S, int kResults>
  __device__ void store(const AttentionTask<S>& task, const Place& at, const Lane& lane, Rows<S> y,
                        float* largest_scores, float* logarithms, float unit,
                        const WarpSums (&results)[kGroups][kResults]) const {
    float factors[kGroups][2];
#pragma unroll
    for (int k = 0; k < 2 * kGroups; ++k) {
      const int m = k / 2, half = k % 2;
      const float total = row_sum(totals[m][half]);
      // If every key is masked, the result is zeros and the largest score infinity, so that the
      // gradient computes e^(-inf - inf).
      const bool masked = total == 0.0f;
      factors[m][half] = masked ? 0.0f : 1.0f / total;
      const std::int64_t query = at.first + lane.row<kGroups>(m, half * 2);
      if (lane.t != 0 || query >= task.queries) continue;
      const std::int64_t number = task.row_number(at, query);
      largest_scores[number] = masked ? infinity<float>() : unit * largest[m][half];
      logarithms[number] = masked ? 0.0f : ::logf(total);
    }
    store_sums(task, at, lane, y, task.queries, 0, results, factors);
  }
};

// In place: e^(score - largest) become those after dropout.
template <class S, int kGroups, int kCount>
__device__ void drop(const AttentionTask<S>& task, const Place& at, const Lane& lane,
                     std::int64_t key, WarpSums (&sums)[kGroups][kCount]) {
#pragma unroll
  for (int k = 0; k < kGroups * kCount; ++k) {
    const int m = k / kCount, j = k % kCount;
    float factors[4];
    dropout_factors<false>(task, at, lane, at.first + (lane.warp * kGroups + m) * 16, key + j * 8,
                           factors);
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[m][j].of[i] *= factors[i];
  }
}

template <class S, class Tiles>
__global__ void __launch_bounds__(Tiles::kThreads, Tiles::kBlocks)
    attend_rows(const __grid_constant__ AttentionTask<S> task, Rows<S> y, float* largest_scores,
                float* logarithms) {
  using Products = typename Tiles::Products;
  constexpr bool kFull = Products::kIsFull;
  constexpr int kFeatures = Tiles::kFeatures, kGroups = Tiles::kGroups;
  constexpr int kColumns = Tiles::kColumns, kPitch = Tiles::kPitch;
  constexpr int kCount = Tiles::kCount, kTiles = 2 * kColumns * kPitch;
  extern __shared__ __align__(16) std::byte shared[];
  S* const q = Tiles::tiles(shared);
  S* const tiles = q + Tiles::kRows * kPitch;  // k, v, k, v
  const Place at = task.place(Tiles::kRows, task.queries);
  const Lane lane;
  load_rows_of<Tiles, Tiles::kRows>(task, at, task.q, task.queries, at.first, q);
  commit_async_copies();
  load_tiles<Tiles>(task, at, task.k, task.v, task.keys, 0, tiles);
  wait_for_tiles<Tiles, 1>();
  const auto own = Tiles::rows(q, lane.warp);
  WarpSums results[kGroups][kFeatures / 8];
  OnlineSoftmax<kGroups> softmax;
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
    WarpSums sums[kGroups][kCount];
    Products::template dot<kFeatures>(own, k, sums);
    score<false>(task, at, lane, key, sums);
    softmax.add(sums, results, [](float x, float top) { return power<kFull>(x - top); });
    if (task.drops) drop(task, at, lane, key, sums);
    Products::template accumulate<kFeatures>(sums, k + kColumns * kPitch, kPitch, results);
    __syncthreads();
  }
  softmax.store(task, at, lane, y, largest_scores, logarithms, 1.0f, results);
}

}  // namespace traingraph::cuda
