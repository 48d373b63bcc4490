// The kernel that fuses weight-gradient GEMMs with their optimizer updates, over the tiles of
// several weights. For .cu files only.
#pragma once

#include "backends/cuda/device/dependent_launch.h"
#include "backends/cuda/device/warp_gemm.h"
#include "backends/cuda/device/wgmma.h"
#include "backends/cuda/elementwise/precompiled_lists.h"
#include "backends/cuda/fused/fused_update.h"

namespace traingraph::cuda::fused_update {

// A tile of weights, and the warps by role. Product warps compute kWarpTile rows and columns of the
// tile each. Update warps apply the optimizer. One thread of the last four warps issues the copies.
constexpr int kRowWarps = 2, kColumnWarps = 4;
constexpr int kRows = kRowWarps * kWarpTile, kColumns = kColumnWarps * kWarpTile;
constexpr int kProductWarps = kRowWarps * kColumnWarps;
constexpr int kUpdateWarps = 16;
constexpr int kFirstCopying =
    (kProductWarps + kUpdateWarps) * 32;  // the first thread of the copying warps
constexpr int kBlock = kFirstCopying + 128;
// Registers per thread by role. kBlock threads start with a number between them.
constexpr int kOfProducts = 112, kOfUpdates = 64, kOfCopies = 24;
constexpr int kStages = 4;
constexpr int kGradients = 2;  // buffers for gradients between products and updates
constexpr int kOwnRows = (kRows + kUpdateWarps - 1) / kUpdateWarps;  // of an update warp
constexpr int kPrefetchedRows = 2;  // of an update warp: loaded before the gradient is ready
// Rows of both operands, by warp.
struct Chunk {
  std::byte a[kRowWarps][kBlockBytes], b[kColumnWarps][kBlockBytes];
};
// Begins at a multiple of 1024.
struct Shared {
  Chunk stages[kStages];
  float gradient[kGradients][kRows][kColumns];
  Barrier full[kStages], free[kStages];
  Barrier ready[kGradients], consumed[kGradients];
};
constexpr int kSharedBytes = sizeof(Shared) + 1024;

// weights (rows, columns) and the optimizer's buffers; sums over `inner`.
template <class List>
struct Plan {
  int rows, columns, inner;
  int across, tiles;
  float alpha;
  const float* inputs[kInputsOf<List>];
  float* outputs[kResultsOf<List>];
  Immediates<float, kStepsOf<List>> list;
};

template <class List>
struct Plans {
  int count, tiles;
  Plan<List> plan[kMostUpdates];
};

// By plan: a (inner, rows) and b (inner, columns).
struct Operands {
  CUtensorMap a[kMostUpdates], b[kMostUpdates];
};

// The gradient's number among a list's inputs. Scalars are the last inputs.
constexpr int kGradient = 1;
template <class List>
constexpr bool is_array(int input) {
  return input != kGradient && List::kinds[input] == 'v';
}

// The block's tiles: blockIdx.x, blockIdx.x + gridDim.x and so on. All warps iterate alike.
template <class List>
struct Tiles {
  const Plans<List>& plans;
  int tile, count = 0;         // its number among the block's tiles
  int number = 0, before = 0;  // the tile's plan, and the tiles of earlier plans

  __device__ explicit Tiles(const Plans<List>& p) : plans(p), tile(static_cast<int>(blockIdx.x)) {
    find_plan();
  }
  __device__ bool more() const { return tile < plans.tiles; }
  // The buffer of the gradient, and the parity of its previous uses.
  __device__ int slot() const { return count % kGradients; }
  __device__ unsigned parity() const { return static_cast<unsigned>(count / kGradients % 2); }
  __device__ void next() {
    tile += static_cast<int>(gridDim.x);
    ++count;
    find_plan();
  }
  __device__ const Plan<List>& plan() const { return plans.plan[number]; }
  __device__ int row() const { return (tile - before) / plan().across * kRows; }
  __device__ int column() const { return (tile - before) % plan().across * kColumns; }
  __device__ int chunks() const { return (plan().inner + kTileFloats - 1) / kTileFloats; }

 private:
  __device__ void find_plan() {
    while (number + 1 < plans.count && tile >= before + plan().tiles) {
      before += plan().tiles;
      ++number;
    }
  }
};

// A ring of stages, with the parity of the round.
struct Stage {
  int number = 0;
  unsigned parity = 0;

  __device__ void next() {
    if (++number < kStages) return;
    number = 0;
    parity ^= 1;
  }
};

template <class List>
__device__ void copy_operands(const Plans<List>& plans, const Operands& operands, Shared& shared) {
  Stage stage;
  for (Tiles<List> tiles(plans); tiles.more(); tiles.next()) {
    for (int k = 0; k < tiles.chunks(); ++k, stage.next()) {
      Barrier& full = shared.full[stage.number];
      auto& [a, b] = shared.stages[stage.number];
      shared.free[stage.number].wait(stage.parity ^ 1);
      full.arrive_and_expect(sizeof(Chunk));
      copy_transposed_tile(a, operands.a[tiles.number], k * kTileFloats, tiles.row(), full);
      copy_transposed_tile(b, operands.b[tiles.number], k * kTileFloats, tiles.column(), full);
    }
  }
}

template <class List>
__device__ void multiply(const Plans<List>& plans, Shared& shared) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int row = warp / kColumnWarps, column = warp % kColumnWarps;  // the warp's tile
  Stage stage;
  for (Tiles<List> tiles(plans); tiles.more(); tiles.next()) {
    WarpGemm product;
    const auto release = [&](int of) {
      fence_async_proxy();
      arrive(shared.free[of]);
    };
    int before = -1;  // the previous stage, released once all of its bytes were read
#pragma unroll 1
    for (int k = 0; k < tiles.chunks(); ++k, stage.next()) {
      if (before >= 0) release(before);
      shared.full[stage.number].wait(stage.parity);
      const Chunk& from = shared.stages[stage.number];
      product.add(from.a[row], from.b[column]);
      before = stage.number;
    }
    release(before);
    const int slot = tiles.slot();
    shared.consumed[slot].wait(tiles.parity() ^ 1);
    product.store_times(tiles.plan().alpha,
                        &shared.gradient[slot][row * kWarpTile][column * kWarpTile], kColumns);
    __threadfence_block();  // orders the stores before the arrival
    arrive(shared.ready[slot]);
  }
}

// Weights stay in the L2 cache for the next step's products; moments are evicted first. All
// accesses bypass L1, which is too small beside so much shared memory.
__device__ inline std::uint64_t evict_first() {
  std::uint64_t policy = 0;
#ifdef TRAINGRAPH_WGMMA
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#endif
  return policy;
}
__device__ inline Pack<float> load_cached(const float* from) {
  const float4 four = __ldcg(reinterpret_cast<const float4*>(from));
  return {{four.x, four.y, four.z, four.w}};
}
__device__ inline Pack<float> load_evict_first(const float* from) {
  Pack<float> four{};
#ifdef TRAINGRAPH_WGMMA
  asm volatile("ld.global.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
               : "=f"(four.element[0]), "=f"(four.element[1]), "=f"(four.element[2]),
                 "=f"(four.element[3])
               : "l"(from), "l"(evict_first())
               : "memory");
#endif
  return four;
}
__device__ inline void store_evict_first(float* to, const Pack<float>& four) {
#ifdef TRAINGRAPH_WGMMA
  asm volatile("st.global.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to),
               "f"(four.element[0]), "f"(four.element[1]), "f"(four.element[2]),
               "f"(four.element[3]), "l"(evict_first())
               : "memory");
#endif
}

// An update thread's share of a tile: four columns of every kUpdateWarps-th row.
template <class List>
class Own {
 public:
  __device__ explicit Own(const Tiles<List>& tiles) : plan_(&tiles.plan()) {
    const int column = tiles.column() + lane() * 4, row = tiles.row() + warp();
    rows_ = column < plan_->columns ? min(kRows, plan_->rows - tiles.row()) : 0;
    first_ = static_cast<std::int64_t>(row) * plan_->columns + column;
  }

  __device__ const Plan<List>& plan() const { return *plan_; }
  // Whether it has a k-th row, and that row's offset in the arrays.
  __device__ bool has(int k) const { return k * kUpdateWarps + warp() < rows_; }
  __device__ std::int64_t offset(int k) const {
    return first_ + std::int64_t{k * kUpdateWarps} * plan_->columns;
  }
  __device__ static float* gradient(float (&of)[kRows][kColumns], int k) {
    return &of[k * kUpdateWarps + warp()][lane() * 4];
  }

 private:
  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32 - kProductWarps; }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }

  const Plan<List>* plan_;
  int rows_;
  std::int64_t first_;
};

// The prefetched inputs of one row.
template <class List>
struct Prefetched {
  Pack<float> input[kInputsOf<List>];

  __device__ void load(const Own<List>& own, int k) {
    if (!own.has(k)) return;
    each<kInputsOf<List>>([&](auto i) {
      if constexpr (is_array<List>(i)) {
        const float* const from = own.plan().inputs[i] + own.offset(k);
        input[i] = i < kGradient ? load_cached(from) : load_evict_first(from);
      }
    });
  }
};

// The first rows of the next tile are prefetched before the last rows of a tile are done.
template <class List>
__device__ void update(const Plans<List>& plans, Shared& shared) {
  static_assert(kOwnRows * kUpdateWarps == kRows && kOwnRows % kPrefetchedRows == 0);
  Tiles<List> tiles(plans);
  Own<List> own(tiles);
  Prefetched<List> ahead[kPrefetchedRows];
#pragma unroll
  for (int d = 0; d < kPrefetchedRows; ++d) ahead[d].load(own, d);
  while (tiles.more()) {
    Pack<float> registers[kInputsOf<List> + kStepsOf<List>];
    each<kInputsOf<List>>([&](auto i) {
      if constexpr (List::kinds[i] == 's') registers[i] = all<4>(own.plan().inputs[i][0]);
    });
    const int slot = tiles.slot();
    const unsigned parity = tiles.parity();
    tiles.next();
    const Own<List> next(tiles);  // without rows if there is no further tile
    shared.ready[slot].wait(parity);
#pragma unroll
    for (int k = 0; k < kOwnRows; ++k) {
      Prefetched<List>& row = ahead[k % kPrefetchedRows];
      if (own.has(k)) {
        registers[kGradient] = cuda::load<4>(own.gradient(shared.gradient[slot], k));
        each<kInputsOf<List>>([&](auto i) {
          if constexpr (is_array<List>(i)) registers[i] = row.input[i];
        });
        run_steps<List>(own.plan().list, registers);
        each<kResultsOf<List>>([&](auto r) {
          float* const to = own.plan().outputs[r] + own.offset(k);
          const Pack<float>& value = registers[List::results[r]];
          if constexpr (r == 0) {
            store(to, value);
          } else {
            store_evict_first(to, value);
          }
        });
      }
      if (k + kPrefetchedRows < kOwnRows) {
        row.load(own, k + kPrefetchedRows);
      } else {
        row.load(next, k + kPrefetchedRows - kOwnRows);
      }
    }
    arrive(shared.consumed[slot]);
    own = next;
  }
}

template <class List>
__global__ void __launch_bounds__(kBlock, 1)
    multiply_and_update(const __grid_constant__ Plans<List> plans,
                        const __grid_constant__ Operands operands) {
#ifdef TRAINGRAPH_WGMMA
  extern __shared__ std::byte memory[];
  auto& shared = *reinterpret_cast<Shared*>(memory + (1024 - shared_address(memory) % 1024) % 1024);
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      shared.full[s].init(1);
      shared.free[s].init(kProductWarps);
    }
    for (int g = 0; g < kGradients; ++g) {
      shared.ready[g].init(kProductWarps);
      shared.consumed[g].init(kUpdateWarps);
    }
    fence_barrier_init();
  }
  __syncthreads();
  wait_for_predecessors();
  if (threadIdx.x < kProductWarps * 32) {
    increase_registers<kOfProducts>();
    multiply(plans, shared);
  } else if (threadIdx.x < kFirstCopying) {
    decrease_registers<kOfUpdates>();
    update(plans, shared);
  } else {
    decrease_registers<kOfCopies>();
    if (threadIdx.x == kFirstCopying) copy_operands(plans, operands, shared);
  }
#endif
}

}  // namespace traingraph::cuda::fused_update
