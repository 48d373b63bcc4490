// Attention and its gradient on tensor cores, for heads of at most 256 features. Scores are never
// stored, every sum has a fixed order, and a score has the same bits in all kernels. For .cu files
// only.
#pragma once

#include <initializer_list>

#include "backends/cuda/device/tensor_cores.h"
#include "backends/cuda/products/attention_kernel.h"
#include "backends/cuda/products/tensor_core_attention.h"
#include "backends/cuda/products/warp_products.h"

namespace traingraph::cuda {

constexpr int kAttentionWarps = 4, kAttentionThreads = 32 * kAttentionWarps;

// What the warps of a block have: kGroups times 16 rows each, of queries or keys. They iterate over
// tiles of kColumns of the others, two of which are in shared memory at a time.
template <class S, int kFeatures, int kGroups_, int kColumns_>
struct Tiling {
  using Element = S;
  static constexpr int kGroups = kGroups_, kColumns = kColumns_, kCount = kColumns / 8;
  static constexpr int kRows = 16 * kGroups * kAttentionWarps;
  static constexpr int kPitch = tile_pitch<S>(kFeatures);
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
template <int kFeatures, int kCount, class S>
__device__ void load_rows_of(const AttentionTask<S>& task, const Place& at, const S* x,
                             std::int64_t rows, std::int64_t first, S* tile) {
  constexpr int kPack = 16 / sizeof(S), kPacks = kFeatures / kPack;
  constexpr int kPitch = tile_pitch<S>(kFeatures);
  constexpr int kStep = kAttentionThreads / kPacks;
  const int column = static_cast<int>(threadIdx.x) % kPacks * kPack;
  int row = static_cast<int>(threadIdx.x) / kPacks;
  const int there = within(rows, first);
  const int features = static_cast<int>(task.features);
  const std::int64_t step = task.heads * task.features;
  const S* from = x + task.element(at, rows, first + row) + column;
  S* to = tile + row * kPitch + column;
#pragma unroll
  for (int i = 0; i < (kCount + kStep - 1) / kStep; ++i) {
    if (kCount % kStep != 0 && row >= kCount) break;
    if (task.has_packs) {
      const bool inside = row < there && column < features;
      copy_async(to, inside ? from : x, inside);
    } else {
      for (int k = 0; k < kPack; ++k) {
        to[k] = row < there && column + k < features ? from[k] : narrow<S>(0.0f);
      }
    }
    row += kStep;
    from += kStep * step;
    to += kStep * kPitch;
  }
}

// Scores of a warp from products; -inf where masked or beyond the last. As task.score().
template <bool kRowsAreKeys, class S, int kGroups, int kCount>
__device__ void score(const AttentionTask<S>& task, const Place& at, const Lane& lane,
                      std::int64_t first_column, Sums (&sums)[kGroups][kCount]) {
  const std::int64_t rows = kRowsAreKeys ? task.keys : task.queries;
  const std::int64_t columns = kRowsAreKeys ? task.queries : task.keys;
  const auto for_each = [&](auto&& change) {
#pragma unroll
    for (int k = 0; k < kGroups * kCount * 4; ++k) {
      const int m = k / 4 / kCount, j = k / 4 % kCount, i = k % 4;
      change(sums[m][j].of[i], lane.row<kGroups>(m, i), lane.column(j, i));
    }
  };
  for_each([&](float& sum, int, int) { sum = rounded_product(task.scale, sum); });
  if (task.has_masks()) {
    // A mask has rows and columns up to these.
    const std::int64_t some = task.masked_keys < task.keys ? task.masked_keys : task.keys;
    const int last_row = within(kRowsAreKeys ? some : rows, at.first);
    const int last_column = within(kRowsAreKeys ? columns : some, first_column);
    const std::int64_t matrix = task.mask_rows == 1 ? 0 : at.n * task.heads + at.h;
    const std::int64_t row_step = kRowsAreKeys ? 1 : task.masked_keys;
    const std::int64_t column_step = kRowsAreKeys ? task.masked_keys : 1;
    const std::int64_t first =
        matrix * task.queries * task.masked_keys + at.first * row_step + first_column * column_step;
    const auto place = [&](int row, int column, bool inside) {
      return inside ? first + row * row_step + column * column_step : 0;
    };
    if (task.added != nullptr) {
      for_each([&](float& sum, int row, int column) {
        const bool inside = row < last_row && column < last_column;
        const float added = task.added[place(row, column, inside)];
        if (inside) sum = rounded_sum(sum, added);
      });
    }
    if (task.mask != nullptr) {
      for_each([&](float& sum, int row, int column) {
        const bool inside = row < last_row && column < last_column;
        if (task.mask[place(row, column, inside)] && inside) sum = -infinity<float>();
      });
    }
    if (task.key_mask != nullptr) {
      const bool* const of_sample =
          task.key_mask + at.n * task.masked_keys + (kRowsAreKeys ? at.first : first_column);
      for_each([&](float& sum, int row, int column) {
        const int key = kRowsAreKeys ? row : column;
        const bool inside = key < (kRowsAreKeys ? last_row : last_column);
        if (inside && of_sample[key]) sum = -infinity<float>();
      });
    }
  }
  const int last_row = within(rows, at.first), last_column = within(columns, first_column);
  if (last_row >= 16 * kGroups * kAttentionWarps && last_column >= 8 * kCount) return;
  for_each([&](float& sum, int row, int column) {
    if (row >= last_row || column >= last_column) sum = -infinity<float>();
  });
}

// e^x. Float32 without TF32 has the exact function.
template <bool kExact>
__device__ float power(float x) {
  if constexpr (kExact) return ::expf(x);
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x * 1.4426950408889634f));
  return result;
}

// The word of a block that element 4 index + `of` has.
__device__ inline std::uint32_t word(const philox::Block& block, int of) {
  return of < 2 ? (of == 0 ? block.word[0] : block.word[1])
                : (of == 2 ? block.word[2] : block.word[3]);
}

// Dropout factors of 16 x 8 probabilities from a row and a column on. Four keys share a block of
// random words, which one lane draws for those that need it.
template <bool kRowsAreKeys, class S>
__device__ void dropout_factors(const AttentionTask<S>& task, const Place& at, const Lane& lane,
                                std::int64_t first_row, std::int64_t first_column,
                                float (&factors)[4]) {
  const auto drawn = [&](std::int64_t query, std::int64_t key) {
    return philox::block_of(task.seed, static_cast<std::uint64_t>(*task.step),
                            static_cast<std::uint64_t>(task.element_of(at, query, key)) >> 2);
  };
  std::uint32_t words[4];
  if constexpr (!kRowsAreKeys) {
    // The keys 2 t and 2 t + 1 and the neighbour's, of row g for even t and of row g + 8 for odd t.
    const int odd = lane.t % 2;
    const philox::Block own = drawn(first_row + lane.g + odd * 8, first_column + lane.t / 2 * 4);
    const std::uint32_t given[2] = {own.word[odd ? 0 : 2], own.word[odd ? 1 : 3]};
    const std::uint32_t kept[2] = {own.word[odd ? 2 : 0], own.word[odd ? 3 : 1]};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t other = __shfl_xor_sync(0xffffffffu, given[i], 1);
      words[i] = odd ? other : kept[i];
      words[2 + i] = odd ? kept[i] : other;
    }
  } else {
    // Lanes of four keys g draw one block each: of sum m.
    const int m = lane.g % 4;
    const philox::Block own =
        drawn(first_column + lane.t * 2 + m % 2, first_row + lane.g / 4 * 4 + m / 2 * 8);
    std::uint32_t of_lane[4];  // by distance of the lane
#pragma unroll
    for (int distance = 0; distance < 4; ++distance) {
      of_lane[distance] = __shfl_xor_sync(0xffffffffu, word(own, m ^ distance), distance * 4);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
      words[i] = word({{of_lane[0], of_lane[1], of_lane[2], of_lane[3]}}, m ^ i);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) factors[i] = words[i] < task.threshold ? 0.0f : task.kept;
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
__device__ void store_sums(const AttentionTask<S>& task, const Place& at, const Lane& lane, S* to,
                           std::int64_t rows, int first_feature,
                           const Sums (&sums)[kGroups][kCount],
                           const float (&factors)[kGroups][2]) {
#pragma unroll
  for (int k = 0; k < 2 * kGroups; ++k) {
    const int m = k / 2, half = k % 2;
    const std::int64_t row = at.first + lane.row<kGroups>(m, half * 2);
    if (row >= rows) continue;
    S* const from = to + task.element(at, rows, row);
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
template <class S, int kFeatures, class Tiles>
__device__ void load_tiles(const AttentionTask<S>& task, const Place& at, const S* x, const S* y,
                           std::int64_t rows, std::int64_t first, S* tiles) {
  constexpr int kColumns = Tiles::kColumns;
  load_rows_of<kFeatures, kColumns>(task, at, x, rows, first, tiles);
  load_rows_of<kFeatures, kColumns>(task, at, y, rows, first, tiles + kColumns * Tiles::kPitch);
  commit_async_copies();
}

template <class S, bool kExact, int kFeatures, class Tiles>
__global__ void __launch_bounds__(kAttentionThreads)
    attend_rows(const __grid_constant__ AttentionTask<S> task, S* y, float* largest_scores,
                float* logarithms) {
  using Products = WarpProducts<S, kExact>;
  constexpr int kGroups = Tiles::kGroups, kColumns = Tiles::kColumns, kPitch = Tiles::kPitch;
  constexpr int kCount = Tiles::kCount, kTiles = 2 * kColumns * kPitch;
  extern __shared__ __align__(16) std::byte shared[];
  S* const q = reinterpret_cast<S*>(shared);
  S* const tiles = q + Tiles::kRows * kPitch;  // k, v, k, v
  const Place at = task.place(Tiles::kRows, task.queries);
  const Lane lane;
  load_rows_of<kFeatures, Tiles::kRows>(task, at, task.q, task.queries, at.first, q);
  load_tiles<S, kFeatures, Tiles>(task, at, task.k, task.v, task.keys, 0, tiles);
  Sums results[kGroups][kFeatures / 8];
  float largest[kGroups][2], totals[kGroups][2] = {};
#pragma unroll
  for (int k = 0; k < 2 * kGroups; ++k) largest[k / 2][k % 2] = -infinity<float>();
  int stage = 0;
  for (std::int64_t key = 0; key < task.keys; key += kColumns, stage ^= 1) {
    if (key + kColumns < task.keys) {
      load_tiles<S, kFeatures, Tiles>(task, at, task.k, task.v, task.keys, key + kColumns,
                                      tiles + (stage ^ 1) * kTiles);
      wait_for_async_copies_before<1>();
    } else {
      wait_for_async_copies_before<0>();
    }
    __syncthreads();
    const S* const k = tiles + stage * kTiles;
    Sums sums[kGroups][kCount];
    Products::template dot<kFeatures>(q + lane.warp * 16 * kGroups * kPitch, k, sums);
    score<false>(task, at, lane, key, sums);
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
        const float factor = power<kExact>(largest[m][half] - shift);
        largest[m][half] = top;
        totals[m][half] *= factor;
#pragma unroll
        for (int k = 0; k < kFeatures / 4; ++k) results[m][k / 2].of[half * 2 + k % 2] *= factor;
        float total = 0;
#pragma unroll
        for (int k = 0; k < 2 * kCount; ++k) {
          float& sum = sums[m][k / 2].of[half * 2 + k % 2];
          sum = power<kExact>(sum - shift);
          total += sum;
        }
        totals[m][half] += total;
      }
    }
    if (task.drops) {
#pragma unroll
      for (int k = 0; k < kGroups * kCount; ++k) {
        const int m = k / kCount, j = k % kCount;
        float factors[4];
        dropout_factors<false>(task, at, lane, at.first + (lane.warp * kGroups + m) * 16,
                               key + j * 8, factors);
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[m][j].of[i] *= factors[i];
      }
    }
    Products::template accumulate<kFeatures>(sums, k + kColumns * kPitch, kPitch, results);
    __syncthreads();
  }
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
    largest_scores[number] = masked ? infinity<float>() : largest[m][half];
    logarithms[number] = masked ? 0.0f : ::logf(total);
  }
  store_sums(task, at, lane, y, task.queries, 0, results, factors);
}

// Numbers that all probabilities of a query share, for some queries.
template <int kCount>
struct PerQuery {
  float largest[kCount], logarithm[kCount], mean[kCount];

  // Of the query that is number `own`; zeros beyond the last.
  template <class S>
  __device__ void load(const AttentionTask<S>& task, const Slopes<S>& slopes, const Place& at,
                       std::int64_t query, int own) {
    const bool there = query < task.queries;
    const std::int64_t number = there ? task.row_number(at, query) : 0;
    largest[own] = there ? slopes.largest[number] : 0.0f;
    logarithm[own] = there ? slopes.logarithm[number] : 0.0f;
    mean[own] = there ? slopes.means[number] : 0.0f;
  }
};

// In place: products q kᵀ become probabilities after dropout, and products dy vᵀ the gradients of
// scores, p (m dp - mean). Queries are rows, or with kRowsAreKeys columns.
template <bool kExact, bool kRowsAreKeys, class S, int kGroups, int kCount, int kQueries>
__device__ void slope(const AttentionTask<S>& task, const Place& at, const Lane& lane,
                      std::int64_t first_column, const PerQuery<kQueries>& known,
                      Sums (&sums)[kGroups][kCount], Sums (&slopes)[kGroups][kCount]) {
  score<kRowsAreKeys>(task, at, lane, first_column, sums);
  const auto query = [&](int m, int j, int i) {
    return kRowsAreKeys ? lane.column(j, i) : lane.row<kGroups>(m, i);
  };
#pragma unroll
  for (int k = 0; k < kGroups * kCount * 4; ++k) {
    const int m = k / 4 / kCount, j = k / 4 % kCount, i = k % 4, own = query(m, j, i);
    float& sum = sums[m][j].of[i];
    sum = power<kExact>(sum - known.largest[own] - known.logarithm[own]);
  }
  if (!task.drops) {
#pragma unroll
    for (int k = 0; k < kGroups * kCount * 4; ++k) {
      const int m = k / 4 / kCount, j = k / 4 % kCount, i = k % 4;
      slopes[m][j].of[i] = sums[m][j].of[i] * (slopes[m][j].of[i] - known.mean[query(m, j, i)]);
    }
    return;
  }
#pragma unroll
  for (int k = 0; k < kGroups * kCount; ++k) {
    const int m = k / kCount, j = k % kCount;
    float factors[4];
    dropout_factors<kRowsAreKeys>(task, at, lane, at.first + (lane.warp * kGroups + m) * 16,
                                  first_column + j * 8, factors);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& p = sums[m][j].of[i];
      slopes[m][j].of[i] = p * (factors[i] * slopes[m][j].of[i] - known.mean[query(m, j, i)]);
      p *= factors[i];
    }
  }
}

// dq, and Σ dy y per query.
template <class S, bool kExact, int kFeatures, class Tiles>
__global__ void __launch_bounds__(kAttentionThreads)
    slope_of_query_rows(const __grid_constant__ AttentionTask<S> task,
                        const __grid_constant__ Slopes<S> slopes) {
  using Products = WarpProducts<S, kExact>;
  constexpr int kGroups = Tiles::kGroups, kColumns = Tiles::kColumns, kPitch = Tiles::kPitch;
  constexpr int kCount = Tiles::kCount, kTiles = 2 * kColumns * kPitch;
  extern __shared__ __align__(16) std::byte shared[];
  S* const q = reinterpret_cast<S*>(shared);
  S* const dy = q + Tiles::kRows * kPitch;
  S* const tiles = dy + Tiles::kRows * kPitch;  // k, v, k, v
  __shared__ PerQuery<Tiles::kRows> known;
  const Place at = task.place(Tiles::kRows, task.queries);
  const Lane lane;
  load_rows_of<kFeatures, Tiles::kRows>(task, at, task.q, task.queries, at.first, q);
  load_rows_of<kFeatures, Tiles::kRows>(task, at, slopes.dy, task.queries, at.first, dy);
  static_assert(Tiles::kRows <= 4 * kColumns);
  load_rows_of<kFeatures, Tiles::kRows>(task, at, slopes.y, task.queries, at.first, tiles);
  wait_for_async_copies();
  __syncthreads();
  // The products have the order of dy vᵀ. So where one key has all the probability, the gradient of
  // its score is 0 to the bit.
#pragma unroll
  for (int m = 0; m < kGroups; ++m) {
    const int from = (lane.warp * kGroups + m) * 16 * kPitch;
    Sums products[1][2];
    Products::template dot<kFeatures>(dy + from, tiles + from, products);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = lane.row<kGroups>(m, i);
      if (lane.column(0, i) != lane.g || at.first + row >= task.queries) continue;
      slopes.means[task.row_number(at, at.first + row)] = products[0][i / 2].of[i];
    }
  }
  __syncthreads();
  load_tiles<S, kFeatures, Tiles>(task, at, task.k, task.v, task.keys, 0, tiles);
  for (int own = static_cast<int>(threadIdx.x); own < Tiles::kRows; own += kAttentionThreads) {
    known.load(task, slopes, at, at.first + own, own);
  }
  Sums results[kGroups][kFeatures / 8];
  const int first = lane.warp * 16 * kGroups * kPitch;
  int stage = 0;
  for (std::int64_t key = 0; key < task.keys; key += kColumns, stage ^= 1) {
    if (key + kColumns < task.keys) {
      load_tiles<S, kFeatures, Tiles>(task, at, task.k, task.v, task.keys, key + kColumns,
                                      tiles + (stage ^ 1) * kTiles);
      wait_for_async_copies_before<1>();
    } else {
      wait_for_async_copies_before<0>();
    }
    __syncthreads();
    const S* const k = tiles + stage * kTiles;
    Sums scores[kGroups][kCount], products[kGroups][kCount];
    Products::template dot<kFeatures>(q + first, k, scores);
    Products::template dot<kFeatures>(dy + first, k + kColumns * kPitch, products);
    slope<kExact, false>(task, at, lane, key, known, scores, products);
    Products::template accumulate<kFeatures>(products, k, kPitch, results);
    __syncthreads();
  }
  float factors[kGroups][2];
#pragma unroll
  for (int k = 0; k < 2 * kGroups; ++k) factors[k / 2][k % 2] = task.scale;
  store_sums(task, at, lane, slopes.dq, task.queries, 0, results, factors);
}

// dk and dv. Rows of a block are keys, and columns are queries. Heads of more than kMostResults
// features have a block for each so many.
constexpr int kMostResults = 128;
template <class S, bool kExact, int kFeatures, class Tiles>
__global__ void __launch_bounds__(kAttentionThreads)
    slope_of_key_rows(const __grid_constant__ AttentionTask<S> task,
                      const __grid_constant__ Slopes<S> slopes) {
  using Products = WarpProducts<S, kExact>;
  constexpr int kGroups = Tiles::kGroups, kColumns = Tiles::kColumns, kPitch = Tiles::kPitch;
  constexpr int kCount = Tiles::kCount, kTiles = 2 * kColumns * kPitch;
  constexpr int kResults = kFeatures < kMostResults ? kFeatures : kMostResults;
  extern __shared__ __align__(16) std::byte shared[];
  S* const k = reinterpret_cast<S*>(shared);
  S* const v = k + Tiles::kRows * kPitch;
  S* const tiles = v + Tiles::kRows * kPitch;  // q, dy, q, dy
  __shared__ PerQuery<kColumns> known[2];
  const Place at = task.place(Tiles::kRows, task.keys);
  const int first_feature = static_cast<int>(blockIdx.y) * kResults;
  const Lane lane;
  const auto load = [&](std::int64_t query, int stage) {
    load_tiles<S, kFeatures, Tiles>(task, at, task.q, slopes.dy, task.queries, query,
                                    tiles + stage * kTiles);
    const int own = static_cast<int>(threadIdx.x);
    if (own < kColumns) known[stage].load(task, slopes, at, query + own, own);
  };
  load_rows_of<kFeatures, Tiles::kRows>(task, at, task.k, task.keys, at.first, k);
  load_rows_of<kFeatures, Tiles::kRows>(task, at, task.v, task.keys, at.first, v);
  load(0, 0);
  Sums dk[kGroups][kResults / 8], dv[kGroups][kResults / 8];
  const int first = lane.warp * 16 * kGroups * kPitch;
  int stage = 0;
  for (std::int64_t query = 0; query < task.queries; query += kColumns, stage ^= 1) {
    if (query + kColumns < task.queries) {
      load(query + kColumns, stage ^ 1);
      wait_for_async_copies_before<1>();
    } else {
      wait_for_async_copies_before<0>();
    }
    __syncthreads();
    const S* const q = tiles + stage * kTiles;
    const S* const dy = q + kColumns * kPitch;
    Sums scores[kGroups][kCount], products[kGroups][kCount];
    Products::template dot<kFeatures>(k + first, q, scores);
    Products::template dot<kFeatures>(v + first, dy, products);
    slope<kExact, true>(task, at, lane, query, known[stage], scores, products);
    Products::template accumulate<kResults>(scores, dy + first_feature, kPitch, dv);
    Products::template accumulate<kResults>(products, q + first_feature, kPitch, dk);
    __syncthreads();
  }
  float scales[kGroups][2], ones[kGroups][2];
#pragma unroll
  for (int m = 0; m < 2 * kGroups; ++m) {
    scales[m / 2][m % 2] = task.scale;
    ones[m / 2][m % 2] = 1;
  }
  store_sums(task, at, lane, slopes.dk, task.keys, first_feature, dk, scales);
  store_sums(task, at, lane, slopes.dv, task.keys, first_feature, dv, ones);
}

// dmask, by tiles of queries and keys: the sum over samples and heads if they share the mask.
template <class S, bool kExact, int kFeatures, class Tiles>
__global__ void __launch_bounds__(kAttentionThreads)
    slope_of_mask_tile(const __grid_constant__ AttentionTask<S> task,
                       const __grid_constant__ Slopes<S> slopes) {
  using Products = WarpProducts<S, kExact>;
  constexpr int kGroups = Tiles::kGroups, kColumns = Tiles::kColumns, kPitch = Tiles::kPitch;
  constexpr int kCount = Tiles::kCount, kRows = Tiles::kRows;
  extern __shared__ __align__(16) std::byte shared[];
  S* const q = reinterpret_cast<S*>(shared);
  S* const dy = q + kRows * kPitch;
  S* const k = dy + kRows * kPitch;
  S* const v = k + kColumns * kPitch;
  __shared__ PerQuery<kRows> known;
  const std::int64_t tiles = (task.masked_keys + kColumns - 1) / kColumns;
  const std::int64_t blocks = (task.queries + kRows - 1) / kRows;
  const std::int64_t key = blockIdx.x % tiles * kColumns;
  const std::int64_t queries = blockIdx.x / tiles % blocks * kRows;
  const std::int64_t matrix = blockIdx.x / tiles / blocks;
  const bool shares = task.mask_rows == 1;
  const std::int64_t end = shares ? task.samples * task.heads : matrix + 1;
  const Lane lane;
  const int first = lane.warp * 16 * kGroups * kPitch;
  Sums results[kGroups][kCount];
  for (std::int64_t head = shares ? 0 : matrix; head < end; ++head) {
    const Place at{head / task.heads, head % task.heads, queries};
    load_rows_of<kFeatures, kRows>(task, at, task.q, task.queries, queries, q);
    load_rows_of<kFeatures, kRows>(task, at, slopes.dy, task.queries, queries, dy);
    load_tiles<S, kFeatures, Tiles>(task, at, task.k, task.v, task.keys, key, k);
    for (int own = static_cast<int>(threadIdx.x); own < kRows; own += kAttentionThreads) {
      known.load(task, slopes, at, queries + own, own);
    }
    wait_for_async_copies();
    __syncthreads();
    Sums scores[kGroups][kCount], products[kGroups][kCount];
    Products::template dot<kFeatures>(q + first, k, scores);
    Products::template dot<kFeatures>(dy + first, v, products);
    slope<kExact, false>(task, at, lane, key, known, scores, products);
#pragma unroll
    for (int i = 0; i < 4 * kGroups * kCount; ++i) {
      results[i / 4 / kCount][i / 4 % kCount].of[i % 4] +=
          products[i / 4 / kCount][i / 4 % kCount].of[i % 4];
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < 4 * kGroups * kCount; ++i) {
    const int m = i / 4 / kCount, j = i / 4 % kCount;
    const std::int64_t query = queries + lane.row<kGroups>(m, i % 4);
    const std::int64_t own = key + lane.column(j, i % 4);
    if (query >= task.queries || own >= task.masked_keys) continue;
    slopes.dmask[(matrix * task.queries + query) * task.masked_keys + own] =
        results[m][j].of[i % 4];
  }
}

// Groups and columns per head size, the fastest of some on an H200.
template <class S, bool kExact, int kFeatures>
struct Tilings {
  static constexpr bool kSmall = kFeatures <= 32, kLarge = kFeatures > 128;
  static constexpr bool kWide = sizeof(S) > 2;
  template <int kGroups, int kColumns>
  using Of = Tiling<S, kFeatures, kGroups, kColumns>;
  static constexpr bool kHeavy = kWide && kFeatures > 64;
  using Forward =
      Of<(kSmall || kLarge ? 1 : 2), (kLarge ? (kWide ? 16 : 32) : (kHeavy || kExact ? 32 : 64))>;
  using Queries = Of<(kSmall || kLarge || kHeavy ? 1 : 2), (kHeavy ? 16 : 32)>;
  using Keys =
      Of<(kFeatures == 64 && (!kWide || kExact) ? 2 : 1), (kSmall && !kWide                ? 64
                                                           : kHeavy || (kExact && !kSmall) ? 16
                                                                                           : 32)>;
  using Mask = Of<1, 16>;
};

// A kernel with the shape of its blocks.
template <class F>
struct TiledKernel {
  F* kernel = nullptr;
  int rows = 0, columns = 0;
  std::size_t shared_bytes = 0;

  // `rows` and `tiles`: how many of the block's rows and of pairs of tiles are in shared memory.
  template <class Tiles>
  static TiledKernel of(F* kernel, int rows, int tiles) {
    return {kernel, Tiles::kRows, Tiles::kColumns,
            std::size_t(rows * Tiles::kRows + tiles * 2 * Tiles::kColumns) * Tiles::kPitch *
                sizeof(typename Tiles::Element)};
  }
  // Whether the device has enough shared memory.
  bool prepare(std::size_t most) const {
    cudaFuncAttributes attributes{};
    check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
    if (attributes.sharedSizeBytes + shared_bytes > most) return false;
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          "cudaFuncSetAttribute");
    return true;
  }
  unsigned blocks(std::int64_t heads, std::int64_t of_rows) const {
    return static_cast<unsigned>(heads * ((of_rows + rows - 1) / rows));
  }
};

template <class S>
struct AttentionKernels {
  TiledKernel<void(const AttentionTask<S>, S*, float*, float*)> forward;
  TiledKernel<void(const AttentionTask<S>, const Slopes<S>)> queries, keys, mask;
  int features = 0;

  template <bool kExact, int kFeatures>
  static AttentionKernels of() {
    using T = Tilings<S, kExact, kFeatures>;
    AttentionKernels k;
    k.forward = k.forward.template of<typename T::Forward>(
        attend_rows<S, kExact, kFeatures, typename T::Forward>, 1, 2);
    k.queries = k.queries.template of<typename T::Queries>(
        slope_of_query_rows<S, kExact, kFeatures, typename T::Queries>, 2, 2);
    k.keys = k.keys.template of<typename T::Keys>(
        slope_of_key_rows<S, kExact, kFeatures, typename T::Keys>, 2, 2);
    k.mask = k.mask.template of<typename T::Mask>(
        slope_of_mask_tile<S, kExact, kFeatures, typename T::Mask>, 2, 1);
    k.features = kFeatures;
    return k;
  }
  bool prepare(std::size_t most) const {
    return forward.prepare(most) && queries.prepare(most) && keys.prepare(most) &&
           mask.prepare(most);
  }
};

template <class S, bool kExact>
class TensorCoreAttention final : public AttentionKernel<S> {
 public:
  TensorCoreAttention(const ir::Graph& graph, const ir::Node& node)
      : AttentionKernel<S>(graph, node) {
    AttentionTask<S>& task = this->task_;
    task.has_packs = task.features % (16 / static_cast<int>(sizeof(S))) == 0;
    if (task.features <= 32) {
      kernels_ = AttentionKernels<S>::template of<kExact, 32>();
    } else if (task.features <= 64) {
      kernels_ = AttentionKernels<S>::template of<kExact, 64>();
    } else if (task.features <= 128) {
      kernels_ = AttentionKernels<S>::template of<kExact, 128>();
    } else {
      kernels_ = AttentionKernels<S>::template of<kExact, 256>();
    }
  }
  bool prepare(std::size_t most) const {
    return this->task_.features <= kernels_.features && kernels_.prepare(most);
  }

  std::size_t workspace_bytes() const override {
    return this->is_gradient_
               ? static_cast<std::size_t>(this->heads() * this->task_.queries) * sizeof(float)
               : 0;
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    const AttentionTask<S> task = this->bound(pointers);
    const std::int64_t heads = this->heads();
    const auto& [forward, queries, keys, mask, features] = kernels_;
    if (!this->is_gradient_) {
      forward.kernel<<<forward.blocks(heads, task.queries), kAttentionThreads, forward.shared_bytes,
                       stream>>>(task, this->template out<S>(pointers, 0),
                                 this->template out<float>(pointers, 1),
                                 this->template out<float>(pointers, 2));
      check_launch("attention");
      return;
    }
    Slopes<S> slopes = this->slopes(pointers);
    slopes.means = this->template workspace<float>(pointers);
    queries.kernel<<<queries.blocks(heads, task.queries), kAttentionThreads, queries.shared_bytes,
                     stream>>>(task, slopes);
    check_launch("attention_gradient");
    const dim3 blocks(keys.blocks(heads, task.keys),
                      static_cast<unsigned>((features + kMostResults - 1) / kMostResults));
    keys.kernel<<<blocks, kAttentionThreads, keys.shared_bytes, stream>>>(task, slopes);
    check_launch("attention_gradient");
    if (slopes.dmask == nullptr) return;
    const std::int64_t tiles = (task.masked_keys + mask.columns - 1) / mask.columns;
    mask.kernel<<<mask.blocks(task.mask_rows * tiles, task.queries), kAttentionThreads,
                  mask.shared_bytes, stream>>>(task, slopes);
    check_launch("attention_gradient");
  }

 private:
  AttentionKernels<S> kernels_;
};

template <class S, bool kExact>
std::unique_ptr<Kernel> make_tensor_core_attention(const ir::Graph& graph, const ir::Node& node,
                                                   const Context& context) {
  int most = 0;
  check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, context.device),
        "cudaDeviceGetAttribute");
  auto made = std::make_unique<TensorCoreAttention<S, kExact>>(graph, node);
  if (!made->prepare(static_cast<std::size_t>(most))) return nullptr;
  return made;
}

}  // namespace traingraph::cuda
