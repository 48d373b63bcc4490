// The gradients of attention for heads of at most 64 features of 16 bits, with WGMMA and TMA. For
// .cu files only.
#pragma once

#include "backends/cuda/products/attention_gradient.h"
#include "backends/cuda/products/attention_pipeline.h"

namespace traingraph::cuda {

// Numbers of queries. kPlain: without masks and dropout.
template <bool kPlain, int kCount>
using PerQueryOf = std::conditional_t<kPlain, PlainPerQuery<kCount>, PerQuery<kCount>>;

template <bool kPlain, bool kRowsAreKeys, class S, class Known, class Sums>
__device__ void pipelined_probability(const AttentionTask<S>& task, const Place& at,
                                      const Lane& lane, std::int64_t first_column,
                                      const Known& known, Sums& sums) {
  if constexpr (kPlain) {
    plain_probability<kRowsAreKeys>(task, at, lane, first_column, known, sums);
  } else {
    probability<false, kRowsAreKeys>(task, at, lane, first_column, known, sums);
  }
}

// dq, and Σ dy y per query. A block is a warpgroup with 64 queries.
constexpr int kQueryStages = 3;
template <class S, bool kPlain>
__global__ void __launch_bounds__(128, kPlain ? 3 : 2)
    pipelined_slope_of_queries(const __grid_constant__ AttentionTask<S> task,
                               const __grid_constant__ Slopes<S> slopes,
                               const __grid_constant__ HeadMaps maps) {
#ifdef TRAINGRAPH_WGMMA
  using Products = WarpgroupProducts<S>;
  using Tiles = PipelineTiling<S, 1>;
  using Ring = TileRing<kQueryStages, 4>;
  extern __shared__ __align__(16) std::byte shared[];
  S* const q = Tiles::tiles(shared);
  S* const dy = q + kTmaTile;
  S* const stages = dy + kTmaTile;  // k, v each
  __shared__ Ring ring;
  __shared__ Barrier own;
  __shared__ PerQueryOf<kPlain, kHeadTile> known;
  const Place at = task.place(kHeadTile, task.queries);
  const Lane lane;
  const int thread = static_cast<int>(threadIdx.x);
  init_barriers(ring, own);
  const int count =
      static_cast<int>((task.keys_of(at.first, kHeadTile) + kHeadTile - 1) / kHeadTile);
  const auto load = [&](int number) { load_keys(ring, stages, number, count, maps, at); };
  // The last stage is free until the loop.
  S* const y = ring.tiles(stages, Ring::kStages - 1);
  if (thread == 0) {
    own.arrive_and_expect(3 * kTmaTileBytes);
    copy_head_tile(q, maps.q, at, at.first, own);
    copy_head_tile(dy, maps.dy, at, at.first, own);
    copy_head_tile(y, maps.y, at, at.first, own);
  }
#pragma unroll
  for (int number = 0; number < Ring::kAhead; ++number) load(number);
  const bool has_query = thread < kHeadTile && at.first + thread < task.queries;
  const std::int64_t query = has_query ? task.row_number(at, at.first + thread) : 0;
  if (thread < kHeadTile) {
    const float largest = has_query ? slopes.largest[query] : 0.0f;
    const float logarithm = has_query ? slopes.logarithm[query] : 0.0f;
    if constexpr (kPlain) {
      known.shift[thread] = kLog2e * (largest + logarithm);
      if (has_query) slopes.shifts[query] = known.shift[thread];
    } else {
      known.largest[thread] = largest;
      known.logarithm[thread] = logarithm;
    }
  }
  own.wait(0);
  const auto own_q = Tiles::rows(q, lane.warp), own_dy = Tiles::rows(dy, lane.warp);
  means_of_rows<Tiles>(lane, dy, y, [&](int row, float mean) {
    known.mean[row] = mean;
    if (at.first + row < task.queries) slopes.means[task.row_number(at, at.first + row)] = mean;
  });
  __syncthreads();
  typename Products::Sums dq;
  int number = 0;
  do {  // There is a key. With a path around this loop ptxas would make products wait.
    const S* const k = ring.tiles(stages, number);
    const std::int64_t key = number * kHeadTile;
    typename Products::Sums scores, products;
    load(number + Ring::kAhead);
    ring.wait_for_tiles(number);
    Products::begin_dot(own_q, k, scores);
    Products::begin_dot(own_dy, k + kTmaTile, products);
    Products::template finish<1>(scores);
    if (number > 0) ring.release(number - 1);
    pipelined_probability<kPlain, false>(task, at, lane, key, known, scores);
    Products::template finish<0>(products);
    if constexpr (kPlain) {
      plain_slope<false>(lane, known, scores, products);
    } else {
      slope<false>(task, at, lane, key, known, scores, products);
    }
    Products::begin_accumulate(products, k, dq);
  } while (++number < count);
  Products::template finish<0>(dq);
  const float scales[1][2] = {{task.scale, task.scale}};
  store_sums(task, at, lane, slopes.dq, task.queries, 0, dq, scales);
#endif
}

// dk and dv. A block is a warpgroup with 64 keys.
constexpr int kKeyStages = 4;
template <class S, bool kPlain>
__global__ void __launch_bounds__(128, 2)
    pipelined_slope_of_keys(const __grid_constant__ AttentionTask<S> task,
                            const __grid_constant__ Slopes<S> slopes,
                            const __grid_constant__ HeadMaps maps) {
#ifdef TRAINGRAPH_WGMMA
  using Products = WarpgroupProducts<S>;
  using Tiles = PipelineTiling<S, 1>;
  using Ring = TileRing<kKeyStages, 4, 1 + kHeadTile>;
  extern __shared__ __align__(16) std::byte shared[];
  S* const k = Tiles::tiles(shared);
  S* const v = k + kTmaTile;
  S* const stages = v + kTmaTile;  // q, dy each
  __shared__ Ring ring;
  __shared__ Barrier own;
  __shared__ PerQueryOf<kPlain, kHeadTile> known[kKeyStages];
  const Place at = task.place(kHeadTile, task.keys);
  const Lane lane;
  const int thread = static_cast<int>(threadIdx.x);
  // In the causal form the first query that sees a key of the block. Sums of none are 0.
  const int begin = task.causal && at.first < task.queries ? static_cast<int>(at.first) : 0;
  const int count = (static_cast<int>(task.queries) - begin + kHeadTile - 1) / kHeadTile;
  init_barriers(ring, own);
  const auto load = [&](int number) {
    if (thread < kHeadTile && number < count) {
      const int query = begin + number * kHeadTile;
      ring.wait_for_room(number);
      known[number % kKeyStages].load(task, slopes, at, query + thread, thread);
      arrive_after_copies(ring.full[number % kKeyStages]);
      if (thread == 0) ring.load(stages, number, maps.q, maps.dy, at, query);
    }
    __syncwarp();
  };
  if (thread == 0) {
    own.arrive_and_expect(2 * kTmaTileBytes);
    copy_head_tile(k, maps.k, at, at.first, own);
    copy_head_tile(v, maps.v, at, at.first, own);
  }
#pragma unroll
  for (int number = 0; number < Ring::kAhead; ++number) load(number);
  own.wait(0);
  const auto own_k = Tiles::rows(k, lane.warp), own_v = Tiles::rows(v, lane.warp);
  typename Products::Sums dk, dv;
  int number = 0;
  do {  // There is a query. With a path around this loop ptxas would make products wait.
    const auto& numbers = known[number % kKeyStages];
    const std::int64_t query = begin + number * kHeadTile;
    const S* const q = ring.tiles(stages, number);
    const S* const dy = q + kTmaTile;
    typename Products::Sums scores, products;
    load(number + Ring::kAhead);
    ring.wait_for_tiles(number);
    Products::begin_dot(own_k, q, scores);
    Products::begin_dot(own_v, dy, products);
    Products::template finish<1>(scores);  // and dk and dv of the tile before
    if (number > 0) ring.release(number - 1);
    pipelined_probability<kPlain, true>(task, at, lane, query, numbers, scores);
    if constexpr (kPlain) {
      Products::begin_accumulate(scores, dy, dv);
      Products::template finish<1>(products);
      plain_slope<true>(lane, numbers, scores, products);
    } else {
      Products::template finish<0>(products);
      slope<true>(task, at, lane, query, numbers, scores, products);
      Products::begin_accumulate(scores, dy, dv);
    }
    Products::begin_accumulate(products, q, dk);
  } while (++number < count);
  Products::template finish<0>(dv);
  Products::template finish<0>(dk);
  const float scales[1][2] = {{task.scale, task.scale}}, ones[1][2] = {{1, 1}};
  store_sums(task, at, lane, slopes.dk, task.keys, 0, dk, scales);
  store_sums(task, at, lane, slopes.dv, task.keys, 0, dv, ones);
#endif
}

}  // namespace traingraph::cuda
