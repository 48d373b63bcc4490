// Tiles of one head, 64 rows of at most 64 features of 16 bits, that TMA copies ahead of the
// products. For .cu files only.
#pragma once

#include "backends/cuda/products/attention_scores.h"
#include "backends/cuda/products/warpgroup_products.h"

namespace traingraph::cuda {

constexpr int kTmaTile = kHeadTile * kHeadTile;  // elements
constexpr unsigned kTmaTileBytes = kTmaTile * 2;

struct HeadMaps {
  CUtensorMap q, k, v, dy, y;
};

// What a block of warpgroups has: 64 rows each, of queries or keys.
template <class S, int kWarpgroups>
using PipelineTiling = Tiling<S, WarpgroupProducts<S>, kHeadTile, 1, kHeadTile, 4 * kWarpgroups>;

// Starts the copy of a tile of the head at `at` from this row on.
__device__ inline void copy_head_tile(void* to, const CUtensorMap& from, const Place& at,
                                      std::int64_t row, Barrier& barrier) {
#ifdef TRAINGRAPH_WGMMA
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared_address(to)),
      "l"(&from), "r"(barrier.at()), "r"(0), "r"(static_cast<int>(at.h)),
      "r"(static_cast<int>(row)), "r"(static_cast<int>(at.n))
      : "memory");
#endif
}

// Arrives when all earlier copies of the thread by copy_float_async() are there.
__device__ inline void arrive_after_copies(Barrier& barrier) {
#ifdef TRAINGRAPH_WGMMA
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier.at())
               : "memory");
#endif
}

// Stages of two tiles each. Copies are kAhead tiles ahead of the products, and begin when all
// kWarps have released what the stage had before. kLoaders threads arrive for each.
template <int kStages_, int kWarps, int kLoaders = 1>
struct TileRing {
  static constexpr int kStages = kStages_, kAhead = kStages - 2;
  Barrier full[kStages], empty[kStages];

  __device__ void init() {
    for (int k = 0; k < kStages; ++k) {
      full[k].init(kLoaders);
      empty[k].init(kWarps);
    }
  }
  template <class S>
  __device__ static S* tiles(S* stages, int number) {
    return stages + number % kStages * 2 * kTmaTile;
  }
  // One thread starts both copies of a pair of tiles, from a row of each operand.
  template <class S>
  __device__ void load(S* stages, int number, const CUtensorMap& x, const CUtensorMap& y,
                       const Place& at, std::int64_t row) {
    Barrier& barrier = full[number % kStages];
    barrier.arrive_and_expect(2 * kTmaTileBytes);
    copy_head_tile(tiles(stages, number), x, at, row, barrier);
    copy_head_tile(tiles(stages, number) + kTmaTile, y, at, row, barrier);
  }
  __device__ void wait_for_room(int number) {
    if (number >= kStages) empty[number % kStages].wait((number / kStages + 1) % 2);
  }
  __device__ void wait_for_tiles(int number) { full[number % kStages].wait(number / kStages % 2); }
  __device__ void release(int number) { arrive(empty[number % kStages]); }
};

// Thread 0 starts the copies of a pair of tiles of keys and values, if there is one, when there is
// room.
template <class Ring, class S>
__device__ void load_keys(Ring& ring, S* stages, int number, int count, const HeadMaps& maps,
                          const Place& at) {
  if (threadIdx.x == 0 && number < count) {
    ring.wait_for_room(number);
    ring.load(stages, number, maps.k, maps.v, at, number * kHeadTile);
  }
  __syncwarp();
}

// The barriers of a block: of its ring, and of the rows that it keeps.
template <class Ring>
__device__ void init_barriers(Ring& ring, Barrier& own) {
  if (threadIdx.x == 0) {
    ring.init();
    own.init(1);
    fence_barrier_init();
  }
  __syncthreads();
}

}  // namespace traingraph::cuda
