#pragma once

#include <cstdint>

namespace traingraph::cpu {

// Rows of queries that one unit of the forward op has, and one of the mask's gradient.
inline constexpr std::int64_t kAttentionQueries = 128;

// One application of attention or of its gradient: q, y (N, L, H, d), k, v (N, S, H, d).
struct Attention {
  std::int64_t heads, queries, keys, features;
  std::int64_t row;  // H d
  float scale;
  // Masks (N, M) and (G, L, M), G being 1 or N H; null: none.
  std::int64_t masked_keys, mask_rows;
  const bool* key_mask;
  const bool* mask;
  const float* added;
  bool causal;  // keys behind a query's position are masked
  // Dropout; without, `drops` is false.
  bool drops;
  std::uint32_t threshold;
  float kept;  // the factor of what is not dropped
  std::uint64_t seed, step, first_row;
  std::int64_t counted_keys;  // S up to a multiple of 4

  const float *q, *k, *v;
};

// What the gradient has besides; dmask may be null.
struct AttentionSlopes {
  const float *dy, *y, *largest, *logarithm;
  float *dq, *dk, *dv, *dmask;
};

struct AttentionLoops {
  // Queries [first, first + count) of head h of sample n, count <= kAttentionQueries.
  void (*forward)(const Attention& op, std::int64_t n, std::int64_t h, std::int64_t first,
                  std::int64_t count, float* y, float* largest, float* logarithm);
  // dq, dk and dv of head h of sample n, overwritten.
  void (*gradient)(const Attention& op, const AttentionSlopes& slopes, std::int64_t n,
                   std::int64_t h);
  // Rows [first, first + count) of dmask's matrix `at`, overwritten: the sum over samples and heads
  // in their order, if they share it.
  void (*mask_gradient)(const Attention& op, const AttentionSlopes& slopes, std::int64_t samples,
                        std::int64_t at, std::int64_t first, std::int64_t count);
};

}  // namespace traingraph::cpu
