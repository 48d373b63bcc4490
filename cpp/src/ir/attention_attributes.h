// Attributes, operands and extents of the ops attention and attention_gradient.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/type.h"

namespace traingraph::ir {

// attention: q (N, L, H d), k (N, S, H d), v (N, S, H d), head h having the elements h d … of a row
// [, key mask (N, M) bool] [, mask (1 or N H, L, M), bool, of q's type, or float32 beside 16 bits]
// [, step [, first row]]
// → y (N, L, H d), max s and log Σ e^(s - max s), both (N, H, L): their sum would lose the
// logarithm beside a large max s.
// With s = scale q kᵀ + mask per head, y = softmax(s) v. True in a mask: s is -inf. Masks know the
// first M <= S keys; the others are masked by none. Causal: s of query i and key j is -inf where
// j > i, whatever M is. Joined: one operand (N, L, 3 H d) has q, k and v side by side in each row,
// and one result of the gradient has theirs. With a rate, probabilities are dropped like elements
// of the op dropout, counted as those of (N, H, L, S up to a multiple of 4).
//
// attention_gradient: dy, q, k, v, y, max s, that logarithm, then as above → dq, dk, dv [, dmask].
struct AttentionAttributes {
  std::int64_t heads = 1;
  double scale = 1;
  bool has_key_mask = false;
  bool has_mask = false;
  bool gives_mask_gradient = false;  // of the gradient op; the mask is one of numbers
  double rate = 0;
  std::uint64_t seed = 0;
  bool tf32 = false;    // float32 operands may be rounded to TF32
  bool causal = false;  // a query sees no later key
  bool joined = false;  // q, k and v are one operand
  template <class Self, class F>
  static void fields(Self& a, F&& f) {
    f("heads", a.heads);
    f("scale", a.scale);
    f("has_key_mask", a.has_key_mask);
    f("has_mask", a.has_mask);
    f("gives_mask_gradient", a.gives_mask_gradient);
    f.unless_empty("rate", a.rate);
    f.unless_empty("seed", a.seed);
    f("tf32", a.tf32);
    f.unless_empty("causal", a.causal);
    f.unless_empty("joined", a.joined);
  }
  bool operator==(const AttentionAttributes&) const = default;
};

// Which operand is where, 0 where there is none: dy of the forward op, whose first operand is q.
// Where they are joined, q, k and v are the same one.
struct AttentionOperands {
  std::size_t dy = 0, q = 0, k = 0, v = 0, y = 0, largest = 0, logarithm = 0;
  std::size_t key_mask = 0, mask = 0, step = 0, first_row = 0;

  // Of as many operands.
  AttentionOperands(const AttentionAttributes& a, bool is_gradient, std::size_t count) {
    std::size_t next = is_gradient ? 1 : 0;
    q = k = v = next++;
    if (!a.joined) k = next++, v = next++;
    if (is_gradient) y = next++, largest = next++, logarithm = next++;
    if (a.has_key_mask) key_mask = next++;
    if (a.has_mask) mask = next++;
    if (a.rate > 0) step = next++;
    if (a.rate > 0 && count > next) first_row = next++;
  }
};

// Extents of one application: N, L, S, H, d, M, and the mask's rows.
struct AttentionExtents {
  std::int64_t samples, queries, keys, heads, features, masked_keys = 0, mask_rows = 0;
  bool is_joined;

  // `operands` are the types of all operands.
  AttentionExtents(const AttentionAttributes& a, const AttentionOperands& at,
                   const std::vector<Type>& operands)
      : samples(operands[at.q].shape[0]),
        queries(operands[at.q].shape[1]),
        keys(operands[at.k].shape[1]),
        heads(a.heads),
        features(operands[at.q].shape[2] / a.heads / (a.joined ? 3 : 1)),
        is_joined(a.joined) {
    if (a.has_key_mask) masked_keys = operands[at.key_mask].shape[1];
    if (!a.has_mask) return;
    masked_keys = operands[at.mask].shape[2];
    mask_rows = operands[at.mask].shape[0];
  }
  std::int64_t row() const { return heads * features; }
  // Elements between two rows of q, k and v.
  std::int64_t row_step() const { return is_joined ? 3 * row() : row(); }
  // Elements of dropout's count between two queries.
  std::int64_t counted_keys() const { return (keys + 3) / 4 * 4; }
};

}  // namespace traingraph::ir
