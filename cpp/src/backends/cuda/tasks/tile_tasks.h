// Small matrix products in exact float32, by tiles of 16 x 16 results per block or per cluster of
// blocks. For .cu files only.
#pragma once

#include "backends/cuda/tasks/tasks.h"

// The warps share the inner extent, 16 of it at a time, and their sums are added in order.
namespace traingraph::cuda {

constexpr int kTile = 16, kDepth = 16;
constexpr int kLeftStep = kTile + 2, kRightStep = kTile + 4;  // padded, and aligned for vectors

// y (batch, M, N) = alpha op(a) op(b) [+ added (N)] [, relu]. If masked, y is 0 where added (M, N)
// is not above 0.
struct TilePlan {
  int rows, columns, inner;
  int a_row, a_inner, b_inner, b_column;  // distances in elements
  std::int64_t a_matrix, b_matrix, y_matrix;
  int tiles_across, tiles_down;  // of a matrix y
  float alpha;
  bool relu, masked;
};

// Applies the epilogue to a sum, except the mask.
__device__ inline float apply_epilogue(const TilePlan& plan, float total, const float* added,
                                       int column) {
  total *= plan.alpha;
  if (added != nullptr && !plan.masked) total += added[column];
  return plan.relu && total < 0.0f ? 0.0f : total;
}

struct Stage {
  float left[kDepth][kLeftStep];
  float right[kDepth][kRightStep];
};

template <int kWarps>
union Shared {
  Stage stages[kWarps];
  float sums[kWarps][kTile][kTile];
};

// A warp's share of one operand, 16 x 16. Element (line, depth) is at line * line_step + depth *
// depth_step. Neighbouring threads read neighbouring elements.
struct Reader {
  const float* from;
  int line_step, depth_step;
  int lines, depths;  // existing ones
  bool depth_first;   // the inner extent is contiguous
  int lane;

  __device__ int line(int k) const { return depth_first ? lane / 16 + 2 * k : lane % 16; }
  __device__ int depth(int k) const { return depth_first ? lane % 16 : lane / 16 + 2 * k; }
  __device__ void load(int start, float (&values)[8]) const {
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const int l = line(k), d = start + depth(k);
      values[k] = l < lines && d < depths ? from[l * line_step + d * depth_step] : 0.0f;
    }
  }
};

// Shared memory of a block.
template <int kWarps>
struct TileScratch {
  Shared<kWarps> shared;
  float block[kTile * kTile];
};

struct Tile {
  int across, down;
  std::int64_t matrix;
};

// Computes a tile. kSplit blocks share the inner extent; `part` is this block's number among them.
template <int kWarps, int kAhead, int kSplit>
__device__ void multiply_tile(const TilePlan& plan, const float* a, const float* b,
                              const float* added, float* y, Tile tile, int part,
                              TileScratch<kWarps>& scratch) {
  Shared<kWarps>& shared = scratch.shared;
  float (&block)[kTile * kTile] = scratch.block;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int row = tile.down * kTile, column = tile.across * kTile;
  const std::int64_t matrix = tile.matrix;
  const Reader left{a + matrix * plan.a_matrix + std::int64_t{row} * plan.a_row,
                    plan.a_row,
                    plan.a_inner,
                    plan.rows - row,
                    plan.inner,
                    plan.a_inner == 1,
                    lane};
  const Reader right{b + matrix * plan.b_matrix + std::int64_t{column} * plan.b_column,
                     plan.b_column,
                     plan.b_inner,
                     plan.columns - column,
                     plan.inner,
                     plan.b_inner == 1,
                     lane};
  Stage& stage = shared.stages[warp];
  const int r = lane / 4 * 2, c = lane % 4 * 4;  // this thread's 2 x 4 results
  float sum[2][4] = {};
  // All loads of up to kAhead stages are issued before the first result is used.
  constexpr int kRound = kSplit * kWarps * kDepth;
  for (int start = (part * kWarps + warp) * kDepth; start < plan.inner; start += kAhead * kRound) {
    float from_left[kAhead][8], from_right[kAhead][8];
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
      left.load(start + s * kRound, from_left[s]);
      right.load(start + s * kRound, from_right[s]);
    }
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
      if (start + s * kRound >= plan.inner) break;
      __syncwarp();
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        stage.left[left.depth(k)][left.line(k)] = from_left[s][k];
        stage.right[right.depth(k)][right.line(k)] = from_right[s][k];
      }
      __syncwarp();
#pragma unroll(kAhead == 1 ? 4 : kDepth)
      for (int d = 0; d < kDepth; ++d) {
        const float2 x = *reinterpret_cast<const float2*>(&stage.left[d][r]);
        const float4 w = *reinterpret_cast<const float4*>(&stage.right[d][c]);
        const float lines[2] = {x.x, x.y}, others[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) sum[i][j] += lines[i] * others[j];
        }
      }
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) shared.sums[warp][r + i][c + j] = sum[i][j];
  }
  __syncthreads();
  for (int k = static_cast<int>(threadIdx.x); k < kTile * kTile; k += kWarps * 32) {
    float total = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) total += shared.sums[w][k / kTile][k % kTile];
    block[k] = total;
  }
  // The blocks of a cluster share a tile. The first one adds the partial sums.
  if constexpr (kSplit > 1) sync_cluster();
  if (part == 0) {
    for (int k = static_cast<int>(threadIdx.x); k < kTile * kTile; k += kWarps * 32) {
      float total = block[k];
      if constexpr (kSplit > 1) {
#pragma unroll
        for (unsigned other = 1; other < kSplit; ++other) {
          total += cluster_shared(block, other)[k];
        }
      }
      const int i = k / kTile, j = k % kTile;
      if (row + i >= plan.rows || column + j >= plan.columns) continue;
      const std::int64_t at =
          matrix * plan.y_matrix + static_cast<std::int64_t>(row + i) * plan.columns + column + j;
      total = apply_epilogue(plan, total, added, column + j);
      y[at] = plan.masked && added[at] <= 0.0f ? 0.0f : total;
    }
  }
  // A block must not exit while another one reads its shared memory.
  if constexpr (kSplit > 1) sync_cluster();
}

// One tile per task.
struct TileTasks {
  using Scratch = TileScratch<kThreads / 32>;
  TilePlan plan;
  const float *a, *b, *added;
  float* y;

  __device__ void run(int task, Scratch& scratch) const {
    const int tiles = plan.tiles_across * plan.tiles_down;
    const Tile tile{task % tiles % plan.tiles_across, task % tiles / plan.tiles_across,
                    task / tiles};
    multiply_tile<kThreads / 32, 1, 1>(plan, a, b, added, y, tile, 0, scratch);
  }
};

}  // namespace traingraph::cuda
