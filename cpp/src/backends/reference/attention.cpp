// Attention and its gradient in float64. Each score is computed again where it is read, so none is
// stored.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/reference/call.h"
#include "runtime/numbers/philox.h"

namespace traingraph::reference {
namespace {

// One application, and its scores and what dropout leaves one at a time.
template <class T>
struct Heads {
  const ir::AttentionAttributes& a;
  ir::AttentionOperands at;
  ir::AttentionExtents extents;
  const T *q, *k, *v;
  const bool* key_mask = nullptr;
  const bool* mask = nullptr;
  const T* added = nullptr;
  std::uint64_t step = 0, first_row = 0;
  std::uint32_t threshold = 0;
  double kept = 1;

  Heads(const Call& call, bool is_gradient)
      : a(call.get<ir::AttentionAttributes>()),
        at(a, is_gradient, call.inputs.size()),
        extents(a, at, call.inputs),
        q(call.in<T>(at.q)),
        k(call.in<T>(at.k)),
        v(call.in<T>(at.v)) {
    if (at.key_mask != 0) key_mask = call.in<bool>(at.key_mask);
    if (at.mask != 0) {
      if (call.inputs[at.mask].data_type == DataType::kBoolean) {
        mask = call.in<bool>(at.mask);
      } else {
        added = call.in<T>(at.mask);
      }
    }
    if (at.step == 0) return;
    step = static_cast<std::uint64_t>(*call.in<std::int64_t>(at.step));
    if (at.first_row != 0) {
      first_row = static_cast<std::uint64_t>(*call.in<std::int64_t>(at.first_row));
    }
    threshold = philox::keep_threshold(a.rate);
    kept = 1 / (1 - a.rate);
  }

  // First element of head h in row `row` of sample n, of so many rows.
  std::int64_t place(std::int64_t n, std::int64_t h, std::int64_t row, std::int64_t rows) const {
    return (n * rows + row) * extents.row() + h * extents.features;
  }
  std::int64_t query(std::int64_t n, std::int64_t h, std::int64_t l) const {
    return place(n, h, l, extents.queries);
  }
  std::int64_t key(std::int64_t n, std::int64_t h, std::int64_t s) const {
    return place(n, h, s, extents.keys);
  }
  std::int64_t masked(std::int64_t n, std::int64_t h, std::int64_t l, std::int64_t s) const {
    const std::int64_t row = extents.mask_rows == 1 ? 0 : n * extents.heads + h;
    return (row * extents.queries + l) * extents.masked_keys + s;
  }
  double dot(const T* x, const T* y) const {
    double sum = 0;
    for (std::int64_t c = 0; c < extents.features; ++c) {
      sum += static_cast<double>(x[c]) * static_cast<double>(y[c]);
    }
    return sum;
  }
  // As T has it, so that the largest one is kept for the gradient without a rounding.
  static double rounded(double score) { return static_cast<double>(static_cast<T>(score)); }
  double score(std::int64_t n, std::int64_t h, std::int64_t l, std::int64_t s) const {
    if (a.causal && s > l) return -std::numeric_limits<double>::infinity();
    double score = a.scale * dot(q + query(n, h, l), k + key(n, h, s));
    if (s >= extents.masked_keys) return rounded(score);
    if (added != nullptr) score += static_cast<double>(added[masked(n, h, l, s)]);
    const bool ignored = (key_mask != nullptr && key_mask[n * extents.masked_keys + s]) ||
                         (mask != nullptr && mask[masked(n, h, l, s)]);
    return ignored ? -std::numeric_limits<double>::infinity() : rounded(score);
  }
  // 0 where the probability is dropped.
  double left(std::int64_t n, std::int64_t h, std::int64_t l, std::int64_t s) const {
    if (at.step == 0) return 1;
    const std::uint64_t row =
        ((first_row + static_cast<std::uint64_t>(n)) * static_cast<std::uint64_t>(extents.heads) +
         static_cast<std::uint64_t>(h)) *
            static_cast<std::uint64_t>(extents.queries) +
        static_cast<std::uint64_t>(l);
    const std::uint64_t element =
        row * static_cast<std::uint64_t>(extents.counted_keys()) + static_cast<std::uint64_t>(s);
    return philox::word_of(a.seed, step, element) < threshold ? 0 : kept;
  }
  // f(n, h, row) for each of so many rows of each head.
  template <class F>
  void for_each(std::int64_t rows, F&& f) const {
    for (std::int64_t n = 0; n < extents.samples; ++n) {
      for (std::int64_t h = 0; h < extents.heads; ++h) {
        for (std::int64_t row = 0; row < rows; ++row) f(n, h, row);
      }
    }
  }
};

// Sums over rows of features, in float64 whatever the type: what `add(sums, first, count)` adds for
// features [first, first + count).
template <class T, class Add>
void sum_features(std::int64_t features, T* to, const Add& add) {
  constexpr std::int64_t kChunk = 64;
  for (std::int64_t first = 0; first < features; first += kChunk) {
    double sums[kChunk] = {};
    const std::int64_t count = std::min(kChunk, features - first);
    add(sums, first, count);
    for (std::int64_t c = 0; c < count; ++c) to[first + c] = static_cast<T>(sums[c]);
  }
}

template <class T>
void add_scaled(double* sums, double factor, const T* x, std::int64_t count) {
  for (std::int64_t c = 0; c < count; ++c) sums[c] += factor * static_cast<double>(x[c]);
}

// The two numbers of one probability that gradients are made of.
struct Slope {
  double share;  // what dropout leaves of it
  double score;  // the gradient of its score
};

template <class T>
Slope slope_of(const Call& call, const Heads<T>& heads, std::int64_t n, std::int64_t h,
               std::int64_t l, std::int64_t s) {
  const std::int64_t query = heads.query(n, h, l);
  const T* const dy = call.in<T>(heads.at.dy) + query;
  const double mean = heads.dot(dy, call.in<T>(heads.at.y) + query);
  const std::int64_t row = (n * heads.extents.heads + h) * heads.extents.queries + l;
  const auto largest = static_cast<double>(call.in<T>(heads.at.largest)[row]);
  const auto logarithm = static_cast<double>(call.in<T>(heads.at.logarithm)[row]);
  const double p = std::exp(heads.score(n, h, l, s) - largest - logarithm);
  const double left = heads.left(n, h, l, s);
  return {p * left, p * (left * heads.dot(dy, heads.v + heads.key(n, h, s)) - mean)};
}

}  // namespace

// q, k, v, … → y, the largest score and log Σ e^(s - largest). Where every key is masked: zeros,
// and infinity, by which the gradient finds probabilities of 0.
template <class T>
void attention(const Call& call) {
  const Heads<T> heads(call, false);
  const ir::AttentionExtents& e = heads.extents;
  heads.for_each(e.queries, [&](std::int64_t n, std::int64_t h, std::int64_t l) {
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t s = 0; s < e.keys; ++s) {
      const double score = heads.score(n, h, l, s);
      largest = std::isnan(score) ? score : std::max(largest, score);  // NaN stays
    }
    const std::int64_t row = (n * e.heads + h) * e.queries + l;
    T& kept = call.out<T>(1)[row];
    T& logarithm = call.out<T>(2)[row];
    T* const y = call.out<T>(0) + heads.query(n, h, l);
    bool masked = true;
    for (std::int64_t s = 0; s < e.keys; ++s) {
      masked = masked && heads.score(n, h, l, s) == -std::numeric_limits<double>::infinity();
    }
    if (masked) {
      std::fill_n(y, e.features, T(0));
      kept = std::numeric_limits<T>::infinity();
      logarithm = 0;
      return;
    }
    double sum = 0;
    for (std::int64_t s = 0; s < e.keys; ++s) sum += std::exp(heads.score(n, h, l, s) - largest);
    const auto add = [&](double* sums, std::int64_t first, std::int64_t count) {
      for (std::int64_t s = 0; s < e.keys; ++s) {
        const double p = std::exp(heads.score(n, h, l, s) - largest) / sum;
        add_scaled(sums, p * heads.left(n, h, l, s), heads.v + heads.key(n, h, s) + first, count);
      }
    };
    sum_features(e.features, y, add);
    kept = static_cast<T>(largest);
    logarithm = static_cast<T>(std::log(sum));
  });
}

// dy, q, k, v, y, largest, logarithm, … → dq, dk, dv [, dmask], all overwritten.
template <class T>
void attention_gradient(const Call& call) {
  const Heads<T> heads(call, true);
  const ir::AttentionExtents& e = heads.extents;
  heads.for_each(e.queries, [&](std::int64_t n, std::int64_t h, std::int64_t l) {
    const auto add = [&](double* sums, std::int64_t first, std::int64_t count) {
      for (std::int64_t s = 0; s < e.keys; ++s) {
        const Slope slope = slope_of(call, heads, n, h, l, s);
        add_scaled(sums, heads.a.scale * slope.score, heads.k + heads.key(n, h, s) + first, count);
      }
    };
    sum_features(e.features, call.out<T>(0) + heads.query(n, h, l), add);
  });
  heads.for_each(e.keys, [&](std::int64_t n, std::int64_t h, std::int64_t s) {
    const auto add_key = [&](double* sums, std::int64_t first, std::int64_t count) {
      for (std::int64_t l = 0; l < e.queries; ++l) {
        const Slope slope = slope_of(call, heads, n, h, l, s);
        add_scaled(sums, heads.a.scale * slope.score, heads.q + heads.query(n, h, l) + first,
                   count);
      }
    };
    const auto add_value = [&](double* sums, std::int64_t first, std::int64_t count) {
      for (std::int64_t l = 0; l < e.queries; ++l) {
        add_scaled(sums, slope_of(call, heads, n, h, l, s).share,
                   call.in<T>(heads.at.dy) + heads.query(n, h, l) + first, count);
      }
    };
    sum_features(e.features, call.out<T>(1) + heads.key(n, h, s), add_key);
    sum_features(e.features, call.out<T>(2) + heads.key(n, h, s), add_value);
  });
  if (!heads.a.gives_mask_gradient) return;
  T* const dmask = call.out<T>(3);
  std::fill(dmask, dmask + element_count(call.out_shape(3)), T(0));
  heads.for_each(e.queries, [&](std::int64_t n, std::int64_t h, std::int64_t l) {
    for (std::int64_t s = 0; s < e.masked_keys; ++s) {
      dmask[heads.masked(n, h, l, s)] += static_cast<T>(slope_of(call, heads, n, h, l, s).score);
    }
  });
}

template void attention<float>(const Call&);
template void attention<double>(const Call&);
template void attention_gradient<float>(const Call&);
template void attention_gradient<double>(const Call&);

}  // namespace traingraph::reference
