#pragma once

#include "backends/cuda/early.h"
#include "backends/cuda/frequent.h"
#include "backends/cuda/joint_update.h"
#include "backends/cuda/part_product.h"
#include "backends/cuda/warpgroups.h"

// One launch over the tiles of several weights. For .cu files only.
namespace traingraph::cuda::joint_update {

// A tile of weights, and warps by what they do: some multiply, kPart rows and columns of the tile
// each; others update; one thread of the last four begins the copies.
constexpr int kRowParts = 2, kColumnParts = 4;
constexpr int kRows = kRowParts * kPart, kColumns = kColumnParts * kPart;
constexpr int kProductWarps = kRowParts * kColumnParts;
constexpr int kUpdateWarps = 16;
constexpr int kFirstCopying = (kProductWarps + kUpdateWarps) * 32;  // of the threads
constexpr int kBlock = kFirstCopying + 128;
// A thread's registers, by what it does; what kBlock threads get at first is between.
constexpr int kOfProducts = 112, kOfUpdates = 64, kOfCopies = 24;
constexpr int kStages = 4;
constexpr int kGradients = 2;  // that are on their way from products to updates
constexpr int kOwnRows = (kRows + kUpdateWarps - 1) / kUpdateWarps;  // of an updating warp
constexpr int kRowsAhead = 2;  // of an updating warp: loaded before the gradient is there
// Rows of both operands, by part.
struct Chunk {
  std::byte a[kRowParts][kBlockBytes], b[kColumnParts][kBlockBytes];
};
// Begins at a multiple of 1024.
struct Shared {
  Chunk stages[kStages];
  float gradient[kGradients][kRows][kColumns];
  Barrier full[kStages], free[kStages];
  Barrier there[kGradients], taken[kGradients];
};
constexpr int kSharedBytes = sizeof(Shared) + 1024;

// weights (rows, columns) and what is kept for each; sums over `inner`.
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
  Plan<List> plan[kMostJoined];
};

// By plan: a (inner, rows) and b (inner, columns).
struct Operands {
  CUtensorMap a[kMostJoined], b[kMostJoined];
};

// The gradient's number among a list's inputs; those of one number are the last ones.
constexpr int kGradient = 1;
template <class List>
constexpr bool is_array(int input) {
  return input != kGradient && List::kinds[input] == 'v';
}

// The block's tiles are blockIdx.x, blockIdx.x + gridDim.x and so on, for all warps alike.
template <class List>
struct Tiles {
  const Plans<List>& plans;
  int tile, count = 0;         // the block's how-manieth tile it is
  int number = 0, before = 0;  // of the plan that it belongs to, and the tiles before that

  __device__ explicit Tiles(const Plans<List>& p) : plans(p), tile(static_cast<int>(blockIdx.x)) {
    find_plan();
  }
  __device__ bool more() const { return tile < plans.tiles; }
  // The place of the gradient, and the parity of how often it has been used before.
  __device__ int place() const { return count % kGradients; }
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

// Goes around the stages, with the parity of the round.
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
      full.expect(sizeof(Chunk));
      copy_blocks(a, operands.a[tiles.number], k * kTileFloats, tiles.row(), full);
      copy_blocks(b, operands.b[tiles.number], k * kTileFloats, tiles.column(), full);
    }
  }
}

template <class List>
__device__ void multiply(const Plans<List>& plans, Shared& shared) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int row = warp / kColumnParts, column = warp % kColumnParts;  // of the parts
  Stage stage;
  for (Tiles<List> tiles(plans); tiles.more(); tiles.next()) {
    PartProduct product;
    const auto release = [&](int of) {
      end_reads();
      arrive(shared.free[of]);
    };
    int before = -1;  // the stage of the round before, which is released when all of it has arrived
#pragma unroll 1
    for (int k = 0; k < tiles.chunks(); ++k, stage.next()) {
      if (before >= 0) release(before);
      shared.full[stage.number].wait(stage.parity);
      const Chunk& from = shared.stages[stage.number];
      product.add(from.a[row], from.b[column]);
      before = stage.number;
    }
    release(before);
    const int place = tiles.place();
    shared.taken[place].wait(tiles.parity() ^ 1);
    product.store_times(tiles.plan().alpha, &shared.gradient[place][row * kPart][column * kPart],
                        kColumns);
    __threadfence_block();  // who waits for this sees it all
    arrive(shared.there[place]);
  }
}

// Weights stay in the second cache for the next step's products, moments leave it first. All go
// past the first one, which is too small beside so much shared memory to hold what is on its way.
__device__ inline std::uint64_t leaving_first() {
  std::uint64_t policy = 0;
#ifdef TRAINGRAPH_WARPGROUPS
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#endif
  return policy;
}
__device__ inline Pack<float> load_to_keep(const float* from) {
  const float4 four = __ldcg(reinterpret_cast<const float4*>(from));
  return {{four.x, four.y, four.z, four.w}};
}
__device__ inline Pack<float> load_to_leave(const float* from) {
  Pack<float> four{};
#ifdef TRAINGRAPH_WARPGROUPS
  asm volatile("ld.global.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
               : "=f"(four.element[0]), "=f"(four.element[1]), "=f"(four.element[2]),
                 "=f"(four.element[3])
               : "l"(from), "l"(leaving_first())
               : "memory");
#endif
  return four;
}
__device__ inline void store_to_leave(float* to, const Pack<float>& four) {
#ifdef TRAINGRAPH_WARPGROUPS
  asm volatile("st.global.L2::cache_hint.v4.f32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to),
               "f"(four.element[0]), "f"(four.element[1]), "f"(four.element[2]),
               "f"(four.element[3]), "l"(leaving_first())
               : "memory");
#endif
}

// What an updating thread has of a tile: four columns of every so many rows.
template <class List>
class Own {
 public:
  __device__ explicit Own(const Tiles<List>& tiles) : plan_(&tiles.plan()) {
    const int column = tiles.column() + lane() * 4, row = tiles.row() + warp();
    rows_ = column < plan_->columns ? min(kRows, plan_->rows - tiles.row()) : 0;
    first_ = static_cast<std::int64_t>(row) * plan_->columns + column;
  }

  __device__ const Plan<List>& plan() const { return *plan_; }
  // Of its k-th row: whether there is one, and where it begins in the arrays.
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

// What is read of a row, on its way.
template <class List>
struct Ahead {
  Pack<float> input[kInputsOf<List>];

  __device__ void load(const Own<List>& own, int k) {
    if (!own.has(k)) return;
    each<kInputsOf<List>>([&](auto i) {
      if constexpr (is_array<List>(i)) {
        const float* const from = own.plan().inputs[i] + own.offset(k);
        input[i] = i < kGradient ? load_to_keep(from) : load_to_leave(from);
      }
    });
  }
};

// Rows of the next tile are on their way before the last ones of a tile are done.
template <class List>
__device__ void update(const Plans<List>& plans, Shared& shared) {
  static_assert(kOwnRows * kUpdateWarps == kRows && kOwnRows % kRowsAhead == 0);
  Tiles<List> tiles(plans);
  Own<List> own(tiles);
  Ahead<List> ahead[kRowsAhead];
#pragma unroll
  for (int d = 0; d < kRowsAhead; ++d) ahead[d].load(own, d);
  while (tiles.more()) {
    Pack<float> registers[kInputsOf<List> + kStepsOf<List>];
    each<kInputsOf<List>>([&](auto i) {
      if constexpr (List::kinds[i] == 's') registers[i] = all<4>(own.plan().inputs[i][0]);
    });
    const int place = tiles.place();
    const unsigned parity = tiles.parity();
    tiles.next();
    const Own<List> next(tiles);  // of a tile that is not there, without rows
    shared.there[place].wait(parity);
#pragma unroll
    for (int k = 0; k < kOwnRows; ++k) {
      Ahead<List>& row = ahead[k % kRowsAhead];
      if (own.has(k)) {
        registers[kGradient] = cuda::load<4>(own.gradient(shared.gradient[place], k));
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
            store_to_leave(to, value);
          }
        });
      }
      if (k + kRowsAhead < kOwnRows) {
        row.load(own, k + kRowsAhead);
      } else {
        row.load(next, k + kRowsAhead - kOwnRows);
      }
    }
    arrive(shared.taken[place]);
    own = next;
  }
}

template <class List>
__global__ void __launch_bounds__(kBlock, 1)
    multiply_and_update(const __grid_constant__ Plans<List> plans,
                        const __grid_constant__ Operands operands) {
#ifdef TRAINGRAPH_WARPGROUPS
  extern __shared__ std::byte memory[];
  auto& shared = *reinterpret_cast<Shared*>(memory + (1024 - shared_address(memory) % 1024) % 1024);
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      shared.full[s].start(1);
      shared.free[s].start(kProductWarps);
    }
    for (int g = 0; g < kGradients; ++g) {
      shared.there[g].start(kProductWarps);
      shared.taken[g].start(kUpdateWarps);
    }
    publish_barriers();
  }
  __syncthreads();
  wait_for_needed();
  if (threadIdx.x < kProductWarps * 32) {
    take_registers<kOfProducts>();
    multiply(plans, shared);
  } else if (threadIdx.x < kFirstCopying) {
    give_registers<kOfUpdates>();
    update(plans, shared);
  } else {
    give_registers<kOfCopies>();
    if (threadIdx.x == kFirstCopying) copy_operands(plans, operands, shared);
  }
#endif
}

}  // namespace traingraph::cuda::joint_update
