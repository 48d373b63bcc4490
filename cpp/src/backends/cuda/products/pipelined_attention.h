// Attention for heads of at most 64 features of 16 bits, with WGMMA and TMA. For .cu files only.
#pragma once

#include "backends/cuda/products/attention_forward.h"
#include "backends/cuda/products/attention_pipeline.h"

namespace traingraph::cuda {

// The blocks of the forward pass. A warpgroup has 64 queries. Two of them share the tiles of keys
// and values, which are then loaded half as often; one leaves more blocks where there are few rows.
template <int kWarpgroups>
struct ForwardBlocks {
  static constexpr int kRows = kHeadTile * kWarpgroups, kThreads = 128 * kWarpgroups;
  static constexpr int kLeast = kWarpgroups == 1 ? 3 : 1;  // on a multiprocessor
  static constexpr int kStages = kWarpgroups == 1 ? 3 : 4;
};

// kPlain: without masks and dropout.
template <class S, bool kPlain, int kWarpgroups, class Blocks = ForwardBlocks<kWarpgroups>>
__global__ void __launch_bounds__(Blocks::kThreads, Blocks::kLeast)
    pipelined_attention(const __grid_constant__ AttentionTask<S> task, Rows<S> y,
                        float* largest_scores, float* logarithms,
                        const __grid_constant__ HeadMaps maps) {
#ifdef TRAINGRAPH_WGMMA
  using Products = WarpgroupProducts<S>;
  using Tiles = PipelineTiling<S, kWarpgroups>;
  using Ring = TileRing<Blocks::kStages, 4 * kWarpgroups>;
  extern __shared__ __align__(16) std::byte shared[];
  S* const q = Tiles::tiles(shared);
  S* const stages = q + kWarpgroups * kTmaTile;  // k, v each
  __shared__ Ring ring;
  __shared__ Barrier own;
  const Place at = task.place(Blocks::kRows, task.queries);
  const Lane lane;
  init_barriers(ring, own);
  const int count =
      static_cast<int>((task.keys_of(at.first, Blocks::kRows) + kHeadTile - 1) / kHeadTile);
  const auto load = [&](int number) { load_keys(ring, stages, number, count, maps, at); };
  if (threadIdx.x == 0) {
    own.arrive_and_expect(kWarpgroups * kTmaTileBytes);
    for (int g = 0; g < kWarpgroups; ++g) {
      copy_head_tile(q + g * kTmaTile, maps.q, at, at.first + g * kHeadTile, own);
    }
  }
#pragma unroll
  for (int number = 0; number < Ring::kAhead; ++number) load(number);
  own.wait(0);
  const auto own_q = Tiles::rows(q, lane.warp);
  const float scale = task.scale * kLog2e;
  typename Products::Sums results;
  OnlineSoftmax<1> softmax;
  int number = 0;
  do {  // There is a key. With a path around this loop ptxas would make products wait.
    const S* const k = ring.tiles(stages, number);
    typename Products::Sums sums;
    load(number + Ring::kAhead);
    ring.wait_for_tiles(number);
    Products::begin_dot(own_q, k, sums);
    Products::template finish<0>(sums);
    if (number > 0) ring.release(number - 1);
    if constexpr (kPlain) {
      hide_beyond<false>(task, at, lane, number * kHeadTile, sums);
      softmax.add(sums, results, [&](float x, float top) {
        return power_of_two(fused(x, scale, -rounded_product(scale, top)));
      });
    } else {
      score<false>(task, at, lane, number * kHeadTile, sums);
      softmax.add(sums, results, [](float x, float top) { return power<false>(x - top); });
      if (task.drops) drop(task, at, lane, number * kHeadTile, sums);
    }
    Products::begin_accumulate(sums, k + kTmaTile, results);
  } while (++number < count);
  Products::template finish<0>(results);
  softmax.store(task, at, lane, y, largest_scores, logarithms, kPlain ? task.scale : 1.0f, results);
#endif
}

}  // namespace traingraph::cuda
