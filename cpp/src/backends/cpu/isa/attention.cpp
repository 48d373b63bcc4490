// Attention and its gradient over tiles of queries and keys, by an online softmax: no more than a
// tile of scores is ever there. Tiles are on the stack, so that threads share no scratch. Of causal
// attention only tiles that have a key of one of their queries are computed.
//
// A tile of scores is (queries, kKeys); lanes beyond the last key have the score -inf. Keys and
// values are transposed a tile at a time, in chunks of features, for products over features.
#include "backends/cpu/isa/attention.h"

#include "backends/cpu/isa/class_rows.h"
#include "backends/cpu/isa/math.h"
#include "backends/cpu/isa/products/tile_product.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {

extern const AttentionLoops attention_loops;

namespace {

constexpr std::int64_t kKeys = 64;
constexpr std::int64_t kGradientQueries = 64;
constexpr std::int64_t kChunk = 128;  // of features

struct Tile {
  std::int64_t n, h;
  std::int64_t query, queries;
  std::int64_t key, keys;
};

TRAINGRAPH_INLINE std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// First element of head h in row `row` of sample n, of so many rows.
TRAINGRAPH_INLINE std::int64_t place(const Attention& op, std::int64_t n, std::int64_t h,
                                     std::int64_t row, std::int64_t rows) {
  return (n * rows + row) * op.row + h * op.features;
}
TRAINGRAPH_INLINE std::int64_t query_of(const Attention& op, const Tile& t) {
  return place(op, t.n, t.h, t.query, op.queries);
}
TRAINGRAPH_INLINE std::int64_t key_of(const Attention& op, const Tile& t) {
  return place(op, t.n, t.h, t.key, op.keys);
}

// A tile's keys or values (keys, d), transposed by chunks; one chunk is transposed once.
class Transposed {
 public:
  Transposed(const Attention& op, const float* x, float* chunk)
      : op_(op), x_(x), chunk_(chunk), chunks_((op.features + kChunk - 1) / kChunk) {}

  void move(const Tile& tile) {
    if (chunks_ == 1) take(tile, 0);
  }
  // scores (queries, kKeys) = left (queries, d) x (keys, d)ᵀ, rows of left op.row apart.
  void multiply(const Tile& tile, const float* left, float* scores) const {
    for (std::int64_t c = 0; c < chunks_; ++c) {
      if (chunks_ > 1) take(tile, c);
      multiply_tiles({tile.queries, kKeys, features(c), left + c * kChunk, op_.row, 1, chunk_,
                      kKeys, scores, kKeys, c > 0});
    }
  }

 private:
  std::int64_t features(std::int64_t c) const { return least(kChunk, op_.features - c * kChunk); }
  void take(const Tile& tile, std::int64_t c) const {
    transpose_tile(x_ + key_of(op_, tile) + c * kChunk, op_.row, tile.keys, features(c), kKeys,
                   chunk_);
  }

  const Attention& op_;
  const float* x_;
  float* chunk_;
  std::int64_t chunks_;
};

// Products → scores of the tile's row r.
void finish_scores(const Attention& op, const Tile& tile, std::int64_t r, float* row) {
#pragma omp simd
  for (std::int64_t s = 0; s < kKeys; ++s) row[s] *= op.scale;
  const std::int64_t masked = least(tile.keys, op.masked_keys - tile.key);
  if (masked > 0) {
    const std::int64_t matrix = op.mask_rows == 1 ? 0 : tile.n * op.heads + tile.h;
    const std::int64_t at = (matrix * op.queries + tile.query + r) * op.masked_keys + tile.key;
    const float lowest = -__builtin_inff();
    if (op.added != nullptr) {
#pragma omp simd
      for (std::int64_t s = 0; s < masked; ++s) row[s] += op.added[at + s];
    }
    if (op.mask != nullptr) {
#pragma omp simd
      for (std::int64_t s = 0; s < masked; ++s) row[s] = op.mask[at + s] ? lowest : row[s];
    }
    if (op.key_mask != nullptr) {
      const bool* const ignored = op.key_mask + tile.n * op.masked_keys + tile.key;
#pragma omp simd
      for (std::int64_t s = 0; s < masked; ++s) row[s] = ignored[s] ? lowest : row[s];
    }
  }
  std::int64_t seen = tile.keys;
  if (op.causal) seen = least(seen, tile.query + r + 1 - tile.key);
  for (std::int64_t s = seen > 0 ? seen : 0; s < kKeys; ++s) row[s] = -__builtin_inff();
}

// What dropout leaves of the row's probabilities, by Philox4x32-10 as in runtime/numbers/philox.h:
// a counter gives the words of four keys.
void fill_left(const Attention& op, const Tile& tile, std::int64_t r, float* left) {
  constexpr int kBlocks = kKeys / 4;
  const std::uint64_t row =
      ((op.first_row + static_cast<std::uint64_t>(tile.n)) * static_cast<std::uint64_t>(op.heads) +
       static_cast<std::uint64_t>(tile.h)) *
          static_cast<std::uint64_t>(op.queries) +
      static_cast<std::uint64_t>(tile.query + r);
  const std::uint64_t first = row * static_cast<std::uint64_t>(op.counted_keys / 4) +
                              static_cast<std::uint64_t>(tile.key / 4);
  std::uint32_t c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
  for (int b = 0; b < kBlocks; ++b) {
    const std::uint64_t index = first + static_cast<std::uint64_t>(b);
    c0[b] = static_cast<std::uint32_t>(index);
    c1[b] = static_cast<std::uint32_t>(index >> 32);
    c2[b] = static_cast<std::uint32_t>(op.step);
    c3[b] = static_cast<std::uint32_t>(op.step >> 32);
  }
  auto key0 = static_cast<std::uint32_t>(op.seed);
  auto key1 = static_cast<std::uint32_t>(op.seed >> 32);
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (int b = 0; b < kBlocks; ++b) {
      const std::uint64_t x = std::uint64_t{0xD2511F53u} * c0[b];
      const std::uint64_t y = std::uint64_t{0xCD9E8D57u} * c2[b];
      c0[b] = static_cast<std::uint32_t>(y >> 32) ^ c1[b] ^ key0;
      c1[b] = static_cast<std::uint32_t>(y);
      c2[b] = static_cast<std::uint32_t>(x >> 32) ^ c3[b] ^ key1;
      c3[b] = static_cast<std::uint32_t>(x);
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
#pragma omp simd
  for (int b = 0; b < kBlocks; ++b) {
    left[4 * b] = c0[b] < op.threshold ? 0.0f : op.kept;
    left[4 * b + 1] = c1[b] < op.threshold ? 0.0f : op.kept;
    left[4 * b + 2] = c2[b] < op.threshold ? 0.0f : op.kept;
    left[4 * b + 3] = c3[b] < op.threshold ? 0.0f : op.kept;
  }
}

// The row's probabilities but for a factor: e^(score - shift - further), and their sum.
TRAINGRAPH_INLINE float exponentials(float* row, float shift, float further = 0) {
  Vector sum{};
#pragma GCC unroll 4
  for (std::int64_t s = 0; s < kKeys; s += kLanes) {
    const Vector e = exponential(load(row + s) - shift - further);
    store(row + s, e);
    sum += e;
  }
  return sum_of(sum);
}

TRAINGRAPH_INLINE void multiply_row(float* row, std::int64_t count, float factor) {
#pragma omp simd
  for (std::int64_t c = 0; c < count; ++c) row[c] *= factor;
}

void forward(const Attention& op, std::int64_t n, std::int64_t h, std::int64_t first,
             std::int64_t count, float* y, float* largest_scores, float* logarithms) {
  alignas(64) float chunk[kChunk * kKeys];
  alignas(64) float scores[kAttentionQueries * kKeys];
  alignas(64) float left[kKeys];
  float largest[kAttentionQueries], sums[kAttentionQueries];
  const float lowest = -__builtin_inff();
  for (std::int64_t r = 0; r < count; ++r) {
    largest[r] = lowest;
    sums[r] = 0;
  }
  Transposed keys(op, op.k, chunk);
  Tile tile{n, h, first, count, 0, 0};
  float* const result = y + query_of(op, tile);
  const std::int64_t end = op.causal ? least(op.keys, first + count) : op.keys;
  for (; tile.key < end; tile.key += kKeys) {
    tile.keys = least(kKeys, op.keys - tile.key);
    // Causal: earlier queries see none of these keys.
    const std::int64_t begin = op.causal && tile.key > first ? tile.key - first : 0;
    tile.query = first + begin;
    tile.queries = count - begin;
    keys.move(tile);
    keys.multiply(tile, op.q + query_of(op, tile), scores);
    for (std::int64_t r = begin; r < count; ++r) {
      float* const row = scores + (r - begin) * kKeys;
      finish_scores(op, tile, r - begin, row);
      const float top = largest_of(row, kKeys);
      const float before = largest[r];
      if (before < top) largest[r] = top;
      // Where all are -inf so far, the next tile's may not be.
      const float shift = largest[r] == lowest ? 0.0f : largest[r];
      const float factor = before < largest[r] ? Math::exp(before - shift) : 1.0f;
      sums[r] = sums[r] * factor + exponentials(row, shift);
      if (tile.key > 0 && factor != 1.0f) multiply_row(result + r * op.row, op.features, factor);
      if (!op.drops) continue;
      fill_left(op, tile, r - begin, left);
#pragma omp simd
      for (std::int64_t s = 0; s < kKeys; ++s) row[s] *= left[s];
    }
    multiply_tiles({tile.queries, op.features, tile.keys, scores, kKeys, 1, op.v + key_of(op, tile),
                    op.row, result + begin * op.row, op.row, tile.key > 0});
  }
  for (std::int64_t r = 0; r < count; ++r) {
    float* const row = result + r * op.row;
    const std::int64_t at = (n * op.heads + h) * op.queries + first + r;
    if (sums[r] == 0.0f) {  // every key is masked; the gradient finds e^(-inf - inf), which is 0
      for (std::int64_t c = 0; c < op.features; ++c) row[c] = 0.0f;
      largest_scores[at] = __builtin_inff();
      logarithms[at] = 0.0f;
      continue;
    }
    multiply_row(row, op.features, 1.0f / sums[r]);
    largest_scores[at] = largest[r];
    logarithms[at] = Math::log(sums[r]);
  }
}

// Σ dy y over a query's features.
float mean_of(const float* dy, const float* y, std::int64_t count) {
  Vector sum{};
  std::int64_t c = 0;
  for (; c + kLanes <= count; c += kLanes) sum += load(dy + c) * load(y + c);
  if (c < count) {
    const Partial part(count - c);
    sum += part.load(dy + c) * part.load(y + c);
  }
  return sum_of(sum);
}

// The two products of a tile: scores = q kᵀ and dp = dy vᵀ, which become p m, what dropout leaves
// of the probabilities, and p (m dp - Σ dy y) times `factor`.
void tile_slopes(const Attention& op, const AttentionSlopes& slopes, const Tile& tile,
                 const Transposed& keys, const Transposed& values, float factor, float* scores,
                 float* dp) {
  alignas(64) float left[kKeys];
  const std::int64_t query = query_of(op, tile);
  keys.multiply(tile, op.q + query, scores);
  values.multiply(tile, slopes.dy + query, dp);
  const std::int64_t first = (tile.n * op.heads + tile.h) * op.queries + tile.query;
  for (std::int64_t r = 0; r < tile.queries; ++r) {
    float* const p = scores + r * kKeys;
    float* const g = dp + r * kKeys;
    finish_scores(op, tile, r, p);
    const std::int64_t at = query + r * op.row;
    const float mean = mean_of(slopes.dy + at, slopes.y + at, op.features);
    exponentials(p, slopes.largest[first + r], slopes.logarithm[first + r]);
    if (op.drops) {
      fill_left(op, tile, r, left);
#pragma omp simd
      for (std::int64_t s = 0; s < kKeys; ++s) {
        g[s] = p[s] * (left[s] * g[s] - mean) * factor;
        p[s] *= left[s];
      }
    } else {
#pragma omp simd
      for (std::int64_t s = 0; s < kKeys; ++s) g[s] = p[s] * (g[s] - mean) * factor;
    }
  }
}

void clear_rows(float* x, std::int64_t rows, std::int64_t columns, std::int64_t row) {
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) x[r * row + c] = 0.0f;
  }
}

// Each tile of keys sums up its dk and dv over the queries, and adds its share to dq.
void gradient(const Attention& op, const AttentionSlopes& slopes, std::int64_t n, std::int64_t h) {
  alignas(64) float key_chunk[kChunk * kKeys], value_chunk[kChunk * kKeys];
  alignas(64) float scores[kGradientQueries * kKeys], dp[kGradientQueries * kKeys];
  Transposed keys(op, op.k, key_chunk), values(op, op.v, value_chunk);
  Tile tile{n, h, 0, 0, 0, 0};
  for (; tile.key < op.keys; tile.key += kKeys) {
    tile.keys = least(kKeys, op.keys - tile.key);
    keys.move(tile);
    values.move(tile);
    const std::int64_t key = key_of(op, tile);
    // Causal: earlier queries see none of these keys.
    const std::int64_t first = op.causal ? tile.key - tile.key % kGradientQueries : 0;
    if (first >= op.queries) {
      clear_rows(slopes.dk + key, tile.keys, op.features, op.row);
      clear_rows(slopes.dv + key, tile.keys, op.features, op.row);
    }
    for (tile.query = first; tile.query < op.queries; tile.query += kGradientQueries) {
      tile.queries = least(kGradientQueries, op.queries - tile.query);
      const std::int64_t query = query_of(op, tile);
      tile_slopes(op, slopes, tile, keys, values, op.scale, scores, dp);
      const bool adds = tile.query > first;
      multiply_tiles({tile.keys, op.features, tile.queries, scores, 1, kKeys, slopes.dy + query,
                      op.row, slopes.dv + key, op.row, adds});
      multiply_tiles({tile.keys, op.features, tile.queries, dp, 1, kKeys, op.q + query, op.row,
                      slopes.dk + key, op.row, adds});
      multiply_tiles({tile.queries, op.features, tile.keys, dp, kKeys, 1, op.k + key, op.row,
                      slopes.dq + query, op.row, tile.key > 0});
    }
  }
}

void mask_gradient(const Attention& op, const AttentionSlopes& slopes, std::int64_t samples,
                   std::int64_t at, std::int64_t first, std::int64_t count) {
  alignas(64) float key_chunk[kChunk * kKeys], value_chunk[kChunk * kKeys];
  alignas(64) float scores[kAttentionQueries * kKeys], dp[kAttentionQueries * kKeys];
  Transposed keys(op, op.k, key_chunk), values(op, op.v, value_chunk);
  const bool shared = op.mask_rows == 1;
  const std::int64_t begin = shared ? 0 : at;
  const std::int64_t end = shared ? samples * op.heads : at + 1;
  float* const dmask = slopes.dmask + (at * op.queries + first) * op.masked_keys;
  for (std::int64_t head = begin; head < end; ++head) {
    Tile tile{head / op.heads, head % op.heads, first, count, 0, 0};
    for (; tile.key < op.masked_keys; tile.key += kKeys) {
      tile.keys = least(kKeys, op.keys - tile.key);
      const std::int64_t here = least(tile.keys, op.masked_keys - tile.key);
      if (op.causal && tile.key >= first + count) {
        if (head == begin) clear_rows(dmask + tile.key, count, here, op.masked_keys);
        continue;
      }
      keys.move(tile);
      values.move(tile);
      tile_slopes(op, slopes, tile, keys, values, 1, scores, dp);
      for (std::int64_t r = 0; r < count; ++r) {
        float* const to = dmask + r * op.masked_keys + tile.key;
        const float* const from = dp + r * kKeys;
        if (head == begin) {
#pragma omp simd
          for (std::int64_t s = 0; s < here; ++s) to[s] = from[s];
        } else {
#pragma omp simd
          for (std::int64_t s = 0; s < here; ++s) to[s] += from[s];
        }
      }
    }
  }
}

}  // namespace

const AttentionLoops attention_loops{forward, gradient, mask_gradient};

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
