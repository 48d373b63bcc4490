// Shapes, tiles and scores that the kernels of attention share. For .cu files only.
#pragma once

#include "backends/cuda/device/storage.h"
#include "ir/attention_attributes.h"
#include "runtime/numbers/philox.h"

namespace traingraph::cuda {

constexpr int kSide = 16;   // rows of a tile, of queries or of keys
constexpr int kChunk = 64;  // features of a tile at a time

__host__ __device__ inline std::int64_t tiles_of(std::int64_t rows) {
  return (rows + kSide - 1) / kSide;
}

// Rows of features. Their distance avoids bank conflicts of lanes that read the same feature.
constexpr int kTileRow = kChunk + 1;
template <class T>
struct Tile {
  T of[kSide][kTileRow];
};

// Each is rounded once, whatever the compiler fuses elsewhere. So a score has the same bits in all
// kernels: beside an offset that all scores of a row share, one bit is a large factor of e^score.
__device__ inline float rounded_product(float x, float y) { return __fmul_rn(x, y); }
__device__ inline double rounded_product(double x, double y) { return __dmul_rn(x, y); }
__device__ inline float rounded_sum(float x, float y) { return __fadd_rn(x, y); }
__device__ inline double rounded_sum(double x, double y) { return __dadd_rn(x, y); }
__device__ inline float fused(float x, float y, float z) { return __fmaf_rn(x, y, z); }
__device__ inline double fused(double x, double y, double z) { return __fma_rn(x, y, z); }

// A block's sample, head and first row.
struct Place {
  std::int64_t n, h, first;
};

// Rows of all heads' features, `step` elements from one to the next.
template <class S>
struct Rows {
  S* of;
  std::int64_t step;
};

// q, y (N, L, H, d), k, v (N, S, H, d); masks (N, M) and (G, L, M), G being 1 or N H, or null.
template <class S>
struct AttentionTask {
  using T = Compute<S>;
  std::int64_t samples, heads, queries, keys, features;
  std::int64_t masked_keys, mask_rows, counted_keys;
  T scale;
  bool causal, drops;
  std::uint32_t threshold;
  T kept;
  std::uint64_t seed;
  Rows<const S> q, k, v;
  const bool *key_mask, *mask;
  const T* added;
  const std::int64_t *step, *first_row;
  bool has_packs;  // whether the features of a head are packs of 16 bytes

  __device__ bool has_masks() const {
    return added != nullptr || mask != nullptr || key_mask != nullptr;
  }

  // Blocks are numbered (n, h, tile), tiles being `side` of so many rows.
  __device__ Place place(std::int64_t side, std::int64_t rows) const {
    const std::int64_t tiles = (rows + side - 1) / side, head = blockIdx.x / tiles;
    return {head / heads, head % heads, blockIdx.x % tiles * side};
  }
  __device__ static int here(std::int64_t rest) {
    return rest < kSide ? static_cast<int>(rest) : kSide;
  }
  // The head in row `row` of `rows`.
  template <class T>
  __device__ T* head(const Place& at, Rows<T> x, std::int64_t rows, std::int64_t row) const {
    return x.of + (at.n * rows + row) * x.step + at.h * features;
  }
  // The number of a query in (N, H, L).
  __device__ std::int64_t row_number(const Place& at, std::int64_t query) const {
    return (at.n * heads + at.h) * queries + query;
  }

  // Loads rows [first, first + kSide) and features [chunk, chunk + kChunk) of x; zeros beyond the
  // last.
  __device__ void fetch(const Place& at, Rows<const S> x, std::int64_t rows, std::int64_t first,
                        std::int64_t chunk, Tile<T>& tile) const {
    const std::int64_t row = first + threadIdx.y;
    const S* const from = head(at, x, rows, row);
    for (int c = static_cast<int>(threadIdx.x); c < kChunk; c += kSide) {
      const bool there = row < rows && chunk + c < features;
      tile.of[threadIdx.y][c] = there ? widen(from[chunk + c]) : T(0);
    }
  }

  // The dot product over features of row threadIdx.y of x's tile and row threadIdx.x of y's tile.
  // All threads of the block call it. The tiles are free again afterwards.
  __device__ T dot(const Place& at, Rows<const S> x, std::int64_t x_rows, std::int64_t x_first,
                   Rows<const S> y, std::int64_t y_rows, std::int64_t y_first, Tile<T>& left,
                   Tile<T>& right) const {
    T sum = T(0);
    for (std::int64_t chunk = 0; chunk < features; chunk += kChunk) {
      fetch(at, x, x_rows, x_first, chunk, left);
      fetch(at, y, y_rows, y_first, chunk, right);
      __syncthreads();
#pragma unroll 8
      for (int c = 0; c < kChunk; ++c) {
        sum = fused(left.of[threadIdx.y][c], right.of[threadIdx.x][c], sum);
      }
      __syncthreads();
    }
    return sum;
  }

  __device__ bool sees(std::int64_t query, std::int64_t key) const {
    return !causal || key <= query;
  }
  // Behind the last key that any of so many queries from this one on sees.
  __device__ std::int64_t keys_of(std::int64_t query, std::int64_t count) const {
    return causal && query + count < keys ? query + count : keys;
  }

  // The score of a key for a query; -inf if it is masked or does not exist.
  __device__ T score(const Place& at, std::int64_t query, std::int64_t key, T product) const {
    if (query >= queries || key >= keys || !sees(query, key)) return -infinity<T>();
    T result = rounded_product(scale, product);
    if (key >= masked_keys) return result;
    const std::int64_t matrix = mask_rows == 1 ? 0 : at.n * heads + at.h;
    const std::int64_t place = (matrix * queries + query) * masked_keys + key;
    if (added != nullptr) result = rounded_sum(result, added[place]);
    const bool ignored = (mask != nullptr && mask[place]) ||
                         (key_mask != nullptr && key_mask[at.n * masked_keys + key]);
    return ignored ? -infinity<T>() : result;
  }

  // The number of a probability for dropout.
  __device__ std::int64_t element_of(const Place& at, std::int64_t query, std::int64_t key) const {
    const std::int64_t before = first_row == nullptr ? 0 : *first_row;
    return (((before + at.n) * heads + at.h) * queries + query) * counted_keys + key;
  }
  // The dropout factor of a probability.
  __device__ T left(const Place& at, std::int64_t query, std::int64_t key) const {
    if (!drops) return T(1);
    const auto element = static_cast<std::uint64_t>(element_of(at, query, key));
    const std::uint32_t word = philox::word_of(seed, static_cast<std::uint64_t>(*step), element);
    return word < threshold ? T(0) : kept;
  }

  // Stores a row's sums of the features lane, lane + kSide, … of a chunk.
  template <int kCount>
  __device__ void put(const Place& at, Rows<S> to, std::int64_t rows, std::int64_t row,
                      std::int64_t chunk, const T (&sums)[kCount], int lane) const {
    if (row >= rows) return;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const std::int64_t c = chunk + lane + i * kSide;
      if (c < features) head(at, to, rows, row)[c] = narrow<S>(sums[i]);
    }
  }
};

// Further operands of the gradient. dmask may be null. Results are overwritten. The workspace has Σ
// dy y per query and, for plain scores, (largest + logarithm) log2(e).
template <class S>
struct Slopes {
  Rows<const S> dy, y;
  const Compute<S>*largest, *logarithm;
  Rows<S> dq, dk, dv;
  Compute<S>*dmask, *means, *shifts;
};

template <class S>
AttentionTask<S> attention_task(const ir::AttentionAttributes& a, const ir::AttentionExtents& e,
                                bool drops) {
  AttentionTask<S> task{};
  task.samples = e.samples;
  task.heads = e.heads;
  task.queries = e.queries;
  task.keys = e.keys;
  task.features = e.features;
  task.masked_keys = e.masked_keys;
  task.mask_rows = e.mask_rows;
  task.counted_keys = e.counted_keys();
  task.scale = static_cast<Compute<S>>(a.scale);
  task.causal = a.causal;
  task.drops = drops;
  task.threshold = philox::keep_threshold(a.rate);
  task.kept = static_cast<Compute<S>>(1 / (1 - a.rate));
  task.seed = a.seed;
  return task;
}

}  // namespace traingraph::cuda
