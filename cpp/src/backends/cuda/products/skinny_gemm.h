// Skinny GEMMs, matrix products with one small extent, in exact float32. For .cu files only.
#pragma once

#include <type_traits>

#include "backends/cuda/products/matmul.h"
#include "backends/cuda/tasks/tile_tasks.h"

// Tiles of 16 x 16 would leave most of their threads idle.
namespace traingraph::cuda {

inline TilePlan tile_plan(const ir::Graph& graph, const ir::Node& node) {
  const auto& attributes = std::get<ir::MatmulAttributes>(node.attributes);
  const MatrixProblem p = matrix_problem(graph, node);
  TilePlan plan{};
  plan.rows = static_cast<int>(p.rows);
  plan.columns = static_cast<int>(p.columns);
  plan.inner = static_cast<int>(p.inner);
  plan.a_row = static_cast<int>(p.transpose_a ? 1 : p.inner);
  plan.a_inner = static_cast<int>(p.transpose_a ? p.rows : 1);
  plan.b_inner = static_cast<int>(p.transpose_b ? 1 : p.columns);
  plan.b_column = static_cast<int>(p.transpose_b ? p.inner : 1);
  plan.a_matrix = p.batch.a * p.rows * p.inner;
  plan.b_matrix = p.batch.b * p.inner * p.columns;
  plan.y_matrix = p.rows * p.columns;
  plan.alpha = static_cast<float>(attributes.alpha);
  plan.masked = ir::is_relu_gradient(attributes.epilogue);
  plan.relu = !plan.masked && ir::add_relu_epilogue_of(attributes.epilogue)->relu;
  plan.tiles_across = static_cast<int>(blocks_for(p.columns, kTile));
  plan.tiles_down = static_cast<int>(blocks_for(p.rows, kTile));
  return plan;
}

// Whether the product is small enough for a megakernel.
inline bool is_tiny(const MatrixProblem& p) {
  constexpr std::int64_t kMostProducts = std::int64_t{1} << 19, kMostInner = 512;
  return p.rows * p.columns * p.inner * p.batch.extent <= kMostProducts && p.inner <= kMostInner;
}

// Inner extents up to kMostSmallK, with b's rows contiguous: a thread computes four columns of
// kSmallKRows rows.
constexpr int kMostSmallK = 32, kSmallKThreads = 128, kSmallKRows = 8;

inline bool has_small_k(const TilePlan& plan) {
  return plan.inner <= kMostSmallK && plan.b_column == 1 && plan.columns % 4 == 0;
}

constexpr int kFewColumns = 16;

// Calls f with the smallest compiled number of columns, up to kFewColumns, that suffices.
template <class F>
auto for_few(int count, F f) {
  return count <= 4    ? f(std::integral_constant<int, 4>())
         : count <= 8  ? f(std::integral_constant<int, 8>())
         : count <= 12 ? f(std::integral_constant<int, 12>())
                       : f(std::integral_constant<int, kFewColumns>());
}

// Up to kFewColumns columns and a long inner extent, along which both operands are contiguous. A
// block computes two rows; its threads share the inner extent, and their sums are added in order.
constexpr int kFewRows = 2;

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
  total = apply_epilogue(plan, total, added, c);
  if (plan.masked && added[at] <= 0.0f) total = 0.0f;
  y[at] = total;
}

// The sum over every kApart-th lane of a warp, in the first kApart lanes.
template <int kApart>
__device__ float sum_across(float x) {
#pragma unroll
  for (int step = kApart; step < 32; step *= 2) x += __shfl_down_sync(0xffffffffu, x, step);
  return x;
}

// Up to kFewColumns rows, with b's rows contiguous and a longer inner extent. A block computes 32
// columns. Neighbouring threads have four columns each, and groups of threads share the inner
// extent; their sums are added in order.
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
      const float total = sum_across<kAcross>(sum[r].element[v]);
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
    total = apply_epilogue(plan, total, added, at_column);
    y[at] = plan.masked && added[at] <= 0.0f ? 0.0f : total;
  }
}

}  // namespace traingraph::cuda
