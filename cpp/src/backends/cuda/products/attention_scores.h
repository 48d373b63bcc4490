// Scores and probabilities in a warp's sums: masks, dropout, and their gradients. For .cu files
// only.
#pragma once

#include "backends/cuda/products/attention_rows.h"

namespace traingraph::cuda {

// Applies a function to each sum of a warp, given its row and column in the tile.
template <int kGroups, int kCount, class F>
__device__ void for_each_sum(const Lane& lane, WarpSums (&sums)[kGroups][kCount], const F& change) {
#pragma unroll
  for (int k = 0; k < kGroups * kCount * 4; ++k) {
    const int m = k / 4 / kCount, j = k / 4 % kCount, i = k % 4;
    change(sums[m][j].of[i], lane.row<kGroups>(m, i), lane.column(j, i));
  }
}

// Scores become -inf beyond the last row and column and, in the causal form, for later keys.
template <bool kRowsAreKeys, class S, int kGroups, int kCount>
__device__ void hide_beyond(const AttentionTask<S>& task, const Place& at, const Lane& lane,
                            std::int64_t first_column, WarpSums (&sums)[kGroups][kCount]) {
  // How far the tile's first query is ahead of its first key.
  const int ahead = kRowsAreKeys ? within(first_column, at.first) : within(at.first, first_column);
  const int keys = kRowsAreKeys ? kGroups * static_cast<int>(blockDim.x) / 2 : 8 * kCount;
  if (task.causal && ahead < keys - 1) {
    for_each_sum(lane, sums, [&](float& sum, int row, int column) {
      if ((kRowsAreKeys ? row - column : column - row) > ahead) sum = -infinity<float>();
    });
  }
  const std::int64_t rows = kRowsAreKeys ? task.keys : task.queries;
  const std::int64_t columns = kRowsAreKeys ? task.queries : task.keys;
  const int last_row = within(rows, at.first), last_column = within(columns, first_column);
  const int all_rows = kGroups * static_cast<int>(blockDim.x) / 2;  // 16 kGroups of each warp
  if (last_row >= all_rows && last_column >= 8 * kCount) return;
  for_each_sum(lane, sums, [&](float& sum, int row, int column) {
    if (row >= last_row || column >= last_column) sum = -infinity<float>();
  });
}

// Scores of a warp from products; -inf where masked or beyond the last. As task.score().
template <bool kRowsAreKeys, class S, int kGroups, int kCount>
__device__ void score(const AttentionTask<S>& task, const Place& at, const Lane& lane,
                      std::int64_t first_column, WarpSums (&sums)[kGroups][kCount]) {
  const std::int64_t rows = kRowsAreKeys ? task.keys : task.queries;
  const std::int64_t columns = kRowsAreKeys ? task.queries : task.keys;
  const auto for_each = [&](auto&& change) { for_each_sum(lane, sums, change); };
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
  hide_beyond<kRowsAreKeys>(task, at, lane, first_column, sums);
}

constexpr float kLog2e = 1.4426950408889634f;

__device__ inline float power_of_two(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// e^x. Float32 without TF32 has the exact function.
template <bool kFull>
__device__ float power(float x) {
  if constexpr (kFull) return ::expf(x);
  return power_of_two(x * kLog2e);
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

// Numbers that all probabilities of a query share, for some queries.
template <int kCount>
struct PerQuery {
  float largest[kCount], logarithm[kCount], mean[kCount];

  // Begins to load those of the query that is number `own`, like a tile; zeros beyond the last.
  template <class S>
  __device__ void load(const AttentionTask<S>& task, const Slopes<S>& slopes, const Place& at,
                       std::int64_t query, int own) {
    const bool there = query < task.queries;
    const std::int64_t number = there ? task.row_number(at, query) : 0;
    copy_float_async(largest + own, slopes.largest + number, there);
    copy_float_async(logarithm + own, slopes.logarithm + number, there);
    copy_float_async(mean + own, slopes.means + number, there);
  }
};

// The same of plain scores, those without masks and dropout. A probability is 2^(score log2(e) -
// shift).
template <int kCount>
struct PlainPerQuery {
  float shift[kCount], mean[kCount];

  template <class S>
  __device__ void load(const AttentionTask<S>& task, const Slopes<S>& slopes, const Place& at,
                       std::int64_t query, int own) {
    const bool there = query < task.queries;
    const std::int64_t number = there ? task.row_number(at, query) : 0;
    copy_float_async(shift + own, slopes.shifts + number, there);
    copy_float_async(mean + own, slopes.means + number, there);
  }
};

// The number of a sum's query in the tile. Queries are rows, or with kRowsAreKeys columns.
template <bool kRowsAreKeys, int kGroups>
__device__ int query_of(const Lane& lane, int m, int j, int i) {
  return kRowsAreKeys ? lane.column(j, i) : lane.row<kGroups>(m, i);
}

// In place: products q kᵀ become probabilities.
template <bool kFull, bool kRowsAreKeys, class S, int kGroups, int kCount, int kQueries>
__device__ void probability(const AttentionTask<S>& task, const Place& at, const Lane& lane,
                            std::int64_t first_column, const PerQuery<kQueries>& known,
                            WarpSums (&sums)[kGroups][kCount]) {
  score<kRowsAreKeys>(task, at, lane, first_column, sums);
#pragma unroll
  for (int k = 0; k < kGroups * kCount * 4; ++k) {
    const int m = k / 4 / kCount, j = k / 4 % kCount, i = k % 4;
    const int own = query_of<kRowsAreKeys, kGroups>(lane, m, j, i);
    float& sum = sums[m][j].of[i];
    sum = power<kFull>(sum - known.largest[own] - known.logarithm[own]);
  }
}

// The same of plain scores. The product with the scale and the difference are rounded together.
template <bool kRowsAreKeys, class S, int kGroups, int kCount, int kQueries>
__device__ void plain_probability(const AttentionTask<S>& task, const Place& at, const Lane& lane,
                                  std::int64_t first_column, const PlainPerQuery<kQueries>& known,
                                  WarpSums (&sums)[kGroups][kCount]) {
  hide_beyond<kRowsAreKeys>(task, at, lane, first_column, sums);
  const float scale = task.scale * kLog2e;
#pragma unroll
  for (int k = 0; k < kGroups * kCount * 4; ++k) {
    const int m = k / 4 / kCount, j = k / 4 % kCount, i = k % 4;
    float& sum = sums[m][j].of[i];
    sum = power_of_two(
        fused(sum, scale, -known.shift[query_of<kRowsAreKeys, kGroups>(lane, m, j, i)]));
  }
}

// In place: products dy vᵀ become the gradients of scores, p (dp - mean).
template <bool kRowsAreKeys, class Known, int kGroups, int kCount>
__device__ void plain_slope(const Lane& lane, const Known& known,
                            const WarpSums (&sums)[kGroups][kCount],
                            WarpSums (&slopes)[kGroups][kCount]) {
#pragma unroll
  for (int k = 0; k < kGroups * kCount * 4; ++k) {
    const int m = k / 4 / kCount, j = k / 4 % kCount, i = k % 4;
    const int own = query_of<kRowsAreKeys, kGroups>(lane, m, j, i);
    slopes[m][j].of[i] = sums[m][j].of[i] * (slopes[m][j].of[i] - known.mean[own]);
  }
}

// In place: probabilities become those after dropout, and products dy vᵀ the gradients of scores,
// p (m dp - mean).
template <bool kRowsAreKeys, class S, int kGroups, int kCount, int kQueries>
__device__ void slope(const AttentionTask<S>& task, const Place& at, const Lane& lane,
                      std::int64_t first_column, const PerQuery<kQueries>& known,
                      WarpSums (&sums)[kGroups][kCount], WarpSums (&slopes)[kGroups][kCount]) {
  const auto query = [&](int m, int j, int i) {
    return query_of<kRowsAreKeys, kGroups>(lane, m, j, i);
  };
  if (!task.drops) return plain_slope<kRowsAreKeys>(lane, known, sums, slopes);
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

}  // namespace traingraph::cuda
