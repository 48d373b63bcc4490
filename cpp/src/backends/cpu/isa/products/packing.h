// Operands of blocked products in the order in which tiles read them: rows of a in groups and
// columns of b in panels, K after K. T is float or of 16 bits; what is packed is float.
#pragma once

#include <utility>

#include "backends/cpu/isa/half_vector.h"
#include "backends/cpu/isa/products/blocked_product.h"
#include "backends/cpu/isa/products/product_vectors.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {

// Sums of one tile, in vector registers of which there are 32, 16, 16 and on other machines 32; the
// rest holds a row of b and a broadcast element of a.
#if defined(__AVX512F__)
inline constexpr int kGroupRows = 14, kPanelVectors = 2;
#elif defined(__AVX__)
inline constexpr int kGroupRows = 6, kPanelVectors = 2;
#elif defined(__SSE2__)
inline constexpr int kGroupRows = 4, kPanelVectors = 2;
#else
inline constexpr int kGroupRows = 4, kPanelVectors = 4;
#endif
inline constexpr std::int64_t kPanelColumns = kPanelVectors * kLanes;
// A panel of b this long takes 24 KiB of a nearest cache of 32 (AVX2), where rows of packed a pass
// through the rest. A block of 256 rows of a takes 384 KiB of the second cache.
inline constexpr std::int64_t kInner = 384;
// Panels packed at one time: whole cache lines of b in a row, and few enough for the second cache.
inline constexpr std::int64_t kPanels = 4;
// Rows of a transposed that are packed at one time. Where they lie a power of two apart, they share
// a set of the nearest cache, which has 8 lines or more.
inline constexpr std::int64_t kRowsAtOnce = 8;

// K in blocks of equal size, as far as vectors allow.
inline std::int64_t inner_block(std::int64_t k) {
  const std::int64_t blocks = (k + kInner - 1) / kInner;
  if (blocks <= 1) return k;
  return ((k + blocks - 1) / blocks + kLanes - 1) / kLanes * kLanes;
}

// Rows in groups as even as can be, the larger ones first.
struct RowGroups {
  std::int64_t count, least, larger;
  explicit RowGroups(std::int64_t m)
      : count((m + kGroupRows - 1) / kGroupRows), least(m / count), larger(m % count) {}
  std::int64_t size(std::int64_t group) const { return least + (group < larger ? 1 : 0); }
  std::int64_t begin(std::int64_t group) const {
    return group * least + (group < larger ? group : larger);
  }
  // Where a packed group of K columns begins. Stores of whole vectors reach into a gap behind it.
  std::int64_t packed(std::int64_t group, std::int64_t k) const {
    return begin(group) * k + group * kLanes;
  }
};

// a (kRows, K) → (K, kRows)
template <class T, int kRows>
void pack_rows(const T* a, std::int64_t row, std::int64_t inner, std::int64_t k, float* to) {
  std::int64_t i = 0;
  if (row == 1) {
    const Partial some(kRows);
    for (; i < k; ++i) {
      __builtin_prefetch(a + (i + kRowsAtOnce) * inner);
      store(to + i * kRows, load(a + i * inner, some));
    }
  }
  if (inner == 1) {
    for (; i + kLanes <= k; i += kLanes) {
      Vector rows[kLanes];
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) __builtin_prefetch(a + (r + kRows) * row + i);
#pragma GCC unroll 16
      for (int r = 0; r < kLanes; ++r) rows[r] = r < kRows ? load(a + r * row + i) : Vector{};
      transpose(rows);
#pragma GCC unroll 16
      for (int j = 0; j < kLanes; ++j) store(to + (i + j) * kRows, rows[j]);
    }
  }
  for (; i < k; ++i) {
    for (int r = 0; r < kRows; ++r) to[i * kRows + r] = number(a[r * row + i * inner]);
  }
}

template <class T>
using PackRows = void (*)(const T*, std::int64_t, std::int64_t, std::int64_t, float*);

template <class T, int... kRows>
constexpr PackRows<T> pack_rows_for(std::int64_t rows, std::integer_sequence<int, kRows...>) {
  constexpr PackRows<T> all[] = {pack_rows<T, kRows + 1>...};
  return all[rows - 1];
}

// Columns [first, first + k) of all rows.
template <class T>
void pack_a(const BlockedProduct& p, const RowGroups& groups, std::int64_t first, std::int64_t k,
            float* packed) {
  const T* const a = static_cast<const T*>(p.a);
  const std::int64_t at_once = p.a_row == 1 ? kRowsAtOnce : k;
  for (std::int64_t i = 0; i < k; i += at_once) {
    const std::int64_t count = k - i < at_once ? k - i : at_once;
    for (std::int64_t group = 0; group < groups.count; ++group) {
      const std::int64_t rows = groups.size(group);
      pack_rows_for<T>(rows, std::make_integer_sequence<int, kGroupRows>{})(
          a + groups.begin(group) * p.a_row + (first + i) * p.a_inner, p.a_row, p.a_inner, count,
          packed + groups.packed(group, k) + i * rows);
    }
  }
}

// b (K, columns) → panels (K, kPanelColumns), zero beyond `columns`.
template <class T>
void pack_b_as_it_lies(const T* b, std::int64_t inner, std::int64_t k, std::int64_t columns,
                       float* to) {
  const std::int64_t whole = columns / kPanelColumns, rest = columns % kPanelColumns;
  for (std::int64_t i = 0; i < k; ++i, b += inner, to += kPanelColumns) {
    for (std::int64_t panel = 0; panel < whole; ++panel) {
#pragma GCC unroll 4
      for (int v = 0; v < kPanelVectors; ++v) {
        store(to + panel * k * kPanelColumns + v * kLanes,
              load(b + panel * kPanelColumns + v * kLanes));
      }
    }
    if (rest == 0) continue;
    float* const last = to + whole * k * kPanelColumns;
    for (std::int64_t v = 0; v < kPanelVectors; ++v) {
      const std::int64_t here = rest - v * kLanes;
      const T* const from = b + whole * kPanelColumns + v * kLanes;
      store(last + v * kLanes, here >= kLanes ? load(from)
                               : here > 0     ? load(from, Partial(here))
                                              : Vector{});
    }
  }
}

// b (columns, K), at most kPanelColumns → (K, kPanelColumns), zero beyond `columns`.
template <class T>
void pack_b_transposed(const T* b, std::int64_t inner, std::int64_t column, std::int64_t k,
                       std::int64_t columns, float* to) {
  for (std::int64_t j = 0; j < kPanelColumns; j += kLanes) {
    const std::int64_t filled = columns - j;
    const T* const from = b + j * column;
    if (inner == 1) {
      pack_transposed(from, column, filled, k, to + j, kPanelColumns);
      continue;
    }
    for (std::int64_t i = 0; i < k; ++i) {
      for (std::int64_t r = 0; r < kLanes; ++r) {
        to[i * kPanelColumns + j + r] = r < filled ? number(from[r * column + i * inner]) : 0.0f;
      }
    }
  }
}

// Rows [first, first + k) of columns from `column` on.
template <class T>
void pack_b(const BlockedProduct& p, std::int64_t first, std::int64_t k, std::int64_t column,
            std::int64_t columns, float* packed) {
  const T* const b = static_cast<const T*>(p.b) + first * p.b_inner + column * p.b_column;
  if (p.b_column == 1) return pack_b_as_it_lies(b, p.b_inner, k, columns, packed);
  for (std::int64_t j = 0; j < columns; j += kPanelColumns) {
    const std::int64_t here = columns - j < kPanelColumns ? columns - j : kPanelColumns;
    pack_b_transposed(b + j * p.b_column, p.b_inner, p.b_column, k, here, packed + j * k);
  }
}

// Fetches a panel that is packed soon, bit by bit while tiles are multiplied.
template <class T>
class PanelFetch {
 public:
  // Rows [first, first + k) of the panel from `column` on, in so many turns.
  PanelFetch(const BlockedProduct& p, std::int64_t first, std::int64_t k, std::int64_t column,
             std::int64_t turns) {
    if (column >= p.n) return;
    const std::int64_t columns = p.n - column < kPanelColumns ? p.n - column : kPanelColumns;
    at_ = static_cast<const T*>(p.b) + first * p.b_inner + column * p.b_column;
    // Runs are columns of b transposed, or rows.
    const bool transposed = p.b_column != 1;
    lines_ = ((transposed ? k : columns) + kLine - 1) / kLine;
    next_run_ = (transposed ? p.b_column : p.b_inner) - lines_ * kLine;
    const std::int64_t all = lines_ * (transposed ? columns : k);
    a_turn_ = (all + turns - 1) / turns;
    left_ = all;
  }

  void take_turn() {
    for (std::int64_t i = a_turn_ < left_ ? a_turn_ : left_; i > 0; --i, --left_) {
      __builtin_prefetch(at_, 0, 2);
      at_ += kLine;
      if (++line_ < lines_) continue;
      line_ = 0;
      at_ += next_run_;
    }
  }

 private:
  static constexpr std::int64_t kLine = 64 / sizeof(T);  // elements

  const T* at_ = nullptr;
  std::int64_t lines_ = 0, next_run_ = 0, a_turn_ = 0, left_ = 0, line_ = 0;
};

inline std::int64_t packed_a_floats(std::int64_t m, std::int64_t k) {
  const RowGroups groups(m);
  return (groups.packed(groups.count, k) + kLanes + 15) / 16 * 16;
}

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
