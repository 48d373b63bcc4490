#pragma once

#include "backends/cuda/tile_tasks.h"

// Matrix products of which one extent is so small that 16 x 16 tiles would waste most of their
// threads; exact float32. For .cu files only.
namespace traingraph::cuda {

// Inner extents up to kShallow, b's rows as they lie: a thread computes four columns of
// kShallowRows rows.
constexpr int kShallow = 32, kShallowThreads = 128, kShallowRows = 8;

inline bool is_shallow(const TilePlan& plan) {
  return plan.inner <= kShallow && plan.b_column == 1 && plan.columns % 4 == 0;
}

__global__ void __launch_bounds__(kShallowThreads)
    multiply_shallow(const __grid_constant__ TilePlan plan, const float* a, const float* b,
                     const float* added, float* y) {
  __shared__ float rows[kShallowRows][kShallow];
  const int row = static_cast<int>(blockIdx.x) * kShallowRows;
  const int column = static_cast<int>(blockIdx.y * kShallowThreads + threadIdx.x) * 4;
  a += blockIdx.z * plan.a_matrix;
  b += blockIdx.z * plan.b_matrix;
  const std::int64_t first = blockIdx.z * plan.y_matrix;
  for (int k = static_cast<int>(threadIdx.x); k < kShallowRows * plan.inner; k += kShallowThreads) {
    const int r = k / plan.inner, d = k % plan.inner;
    rows[r][d] = row + r < plan.rows ? a[std::int64_t{row + r} * plan.a_row + d * plan.a_inner] : 0;
  }
  __syncthreads();
  if (column >= plan.columns) return;
  // What a mask is made of is on its way while the sums are made.
  const std::int64_t at = first + std::int64_t{row} * plan.columns + column;
  Pack<float> masks[kShallowRows];
  if (plan.masked) {
#pragma unroll
    for (int r = 0; r < kShallowRows; ++r) {
      if (row + r < plan.rows) masks[r] = load<4>(added + at + std::int64_t{r} * plan.columns);
    }
  }
  Pack<float> sum[kShallowRows] = {};
#pragma unroll 8
  for (int d = 0; d < plan.inner; ++d) {
    const auto w = load<4>(b + std::int64_t{d} * plan.b_inner + column);
#pragma unroll
    for (int r = 0; r < kShallowRows; ++r) {
#pragma unroll
      for (int v = 0; v < 4; ++v) sum[r].element[v] += rows[r][d] * w.element[v];
    }
  }
#pragma unroll
  for (int r = 0; r < kShallowRows; ++r) {
    if (row + r >= plan.rows) break;
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      float& total = sum[r].element[v];
      total = ended(plan, total, added, column + v);
      if (plan.masked && masks[r].element[v] <= 0.0f) total = 0.0f;
    }
    store(y + at + std::int64_t{r} * plan.columns, sum[r]);
  }
}

// Up to kFewColumns columns and a long inner extent, along which both operands lie: a block shares
// the inner extent of two rows, and its sums are added in order.
constexpr int kFewColumns = 16, kFewRows = 2;

inline bool has_few_columns(const TilePlan& plan) {
  return plan.columns <= kFewColumns && plan.a_inner == 1 && plan.b_inner == 1 &&
         plan.inner % 4 == 0 && plan.inner >= kThreads;
}

template <int kColumns>
__global__ void __launch_bounds__(kThreads)
    multiply_few_columns(const __grid_constant__ TilePlan plan, const float* a, const float* b,
                         const float* added, float* y) {
  constexpr int kWarps = kThreads / 32;
  __shared__ float parts[kFewRows * kColumns][kWarps];
  const int row = static_cast<int>(blockIdx.x) * kFewRows;
  a += blockIdx.z * plan.a_matrix;
  b += blockIdx.z * plan.b_matrix;
  float sum[kFewRows][kColumns] = {};
  for (int d = static_cast<int>(threadIdx.x) * 4; d < plan.inner; d += kThreads * 4) {
    Pack<float> x[kFewRows] = {}, w[kColumns] = {};
#pragma unroll
    for (int r = 0; r < kFewRows; ++r) {
      if (row + r < plan.rows) x[r] = load<4>(a + std::int64_t{row + r} * plan.a_row + d);
    }
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      if (c < plan.columns) w[c] = load<4>(b + std::int64_t{c} * plan.b_column + d);
    }
#pragma unroll
    for (int r = 0; r < kFewRows; ++r) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
#pragma unroll
        for (int v = 0; v < 4; ++v) sum[r][c] += x[r].element[v] * w[c].element[v];
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kFewRows; ++r) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const float total = combine<32>(sum[r][c], Sum());
      if (threadIdx.x % 32 == 0) parts[r * kColumns + c][threadIdx.x / 32] = total;
    }
  }
  __syncthreads();
  const int k = static_cast<int>(threadIdx.x), r = k / kColumns, c = k % kColumns;
  if (r >= kFewRows || c >= plan.columns || row + r >= plan.rows) return;
  float total = 0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) total += parts[k][warp];
  const std::int64_t at = blockIdx.z * plan.y_matrix + std::int64_t{row + r} * plan.columns + c;
  total = ended(plan, total, added, c);
  y[at] = plan.masked && added[at] <= 0.0f ? 0.0f : total;
}

// Up to kFewColumns rows over b's rows as they lie, and a longer inner extent: a block shares it
// for 32 columns. Threads beside each other have four columns each, those behind them another part
// of the inner extent; sums are added in order.
constexpr int kFewRowsColumns = 32, kFewRowsDepth = 64;

inline bool has_few_rows(const TilePlan& plan) {
  return plan.rows <= kFewColumns && plan.b_column == 1 && plan.columns % 4 == 0 &&
         plan.columns >= 8 * kFewRowsColumns && plan.inner >= kFewRowsDepth;
}

template <int kRows>
__global__ void __launch_bounds__(kThreads)
    multiply_few_rows(const __grid_constant__ TilePlan plan, const float* a, const float* b,
                      const float* added, float* y) {
  constexpr int kAcross = kFewRowsColumns / 4, kParts = kThreads / kAcross, kWarps = kThreads / 32;
  __shared__ float parts[kWarps][kRows][kFewRowsColumns];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int own = thread % kAcross * 4;
  const int column = static_cast<int>(blockIdx.x) * kFewRowsColumns + own;
  a += blockIdx.z * plan.a_matrix;
  b += blockIdx.z * plan.b_matrix;
  Pack<float> sum[kRows] = {};
  if (column < plan.columns) {
#pragma unroll 4
    for (int d = thread / kAcross; d < plan.inner; d += kParts) {
      const auto w = load<4>(b + std::int64_t{d} * plan.b_inner + column);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float x = r < plan.rows ? a[r * plan.a_row + std::int64_t{d} * plan.a_inner] : 0;
#pragma unroll
        for (int v = 0; v < 4; ++v) sum[r].element[v] += x * w.element[v];
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      float& total = sum[r].element[v];
#pragma unroll
      for (int step = kAcross; step < 32; step *= 2) {
        total += __shfl_down_sync(0xffffffffu, total, step);
      }
      if (lane < kAcross) parts[warp][r][own + v] = total;
    }
  }
  __syncthreads();
  for (int k = thread; k < kRows * kFewRowsColumns; k += kThreads) {
    const int r = k / kFewRowsColumns, c = k % kFewRowsColumns;
    const int at_column = static_cast<int>(blockIdx.x) * kFewRowsColumns + c;
    if (r >= plan.rows || at_column >= plan.columns) continue;
    float total = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) total += parts[w][r][c];
    const std::int64_t at = blockIdx.z * plan.y_matrix + std::int64_t{r} * plan.columns + at_column;
    total = ended(plan, total, added, at_column);
    y[at] = plan.masked && added[at] <= 0.0f ? 0.0f : total;
  }
}

}  // namespace traingraph::cuda
