// Products of matrices beyond the caches. A block of a is packed so that it stays in the second
// cache, and some panels of b's columns so that each is in the nearest one while all rows of the
// block pass over it. A tile of c stays in registers over a block of K.
#include "backends/cpu/isa/blocked_product.h"

#include "backends/cpu/isa/vector.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {
namespace {

// Sums of one tile, in vector registers of which there are 32, 16, 16 and on other machines 32; the
// rest holds a row of b and a broadcast element of a.
#if defined(__AVX512F__)
constexpr int kTileRows = 14, kTileVectors = 2;
constexpr bool kPreferred = false;  // oneDNN's were measured, these never
#elif defined(__AVX__)
constexpr int kTileRows = 6, kTileVectors = 2;
constexpr bool kPreferred = true;
#elif defined(__SSE2__)
constexpr int kTileRows = 4, kTileVectors = 2;
constexpr bool kPreferred = true;
#else
constexpr int kTileRows = 4, kTileVectors = 4;
constexpr bool kPreferred = true;
#endif
constexpr std::int64_t kPanelColumns = kTileVectors * kLanes;
// A panel of b this long takes 24 KiB of a nearest cache of 32 (AVX2), where rows of packed a pass
// through the rest. A block of 256 rows of a takes 384 KiB of the second cache.
constexpr std::int64_t kInner = 384;
// Panels packed at one time: whole cache lines of b in a row, and few enough for the second cache.
constexpr std::int64_t kPanels = 4;
// Rows of a transposed that are packed at one time. Where they lie a power of two apart, they share
// a set of the nearest cache, which has 8 lines or more.
constexpr std::int64_t kRowsAtOnce = 8;

// K in blocks of equal size, as far as vectors allow.
std::int64_t inner_block(std::int64_t k) {
  const std::int64_t blocks = (k + kInner - 1) / kInner;
  if (blocks <= 1) return k;
  return ((k + blocks - 1) / blocks + kLanes - 1) / kLanes * kLanes;
}

// Rows in groups as even as can be, the larger ones first.
struct RowGroups {
  std::int64_t count, least, larger;
  explicit RowGroups(std::int64_t m)
      : count((m + kTileRows - 1) / kTileRows), least(m / count), larger(m % count) {}
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
template <int kRows>
void pack_rows(const float* a, std::int64_t row, std::int64_t inner, std::int64_t k, float* to) {
  std::int64_t i = 0;
  if (row == 1) {
    const Partial some(kRows);
    for (; i < k; ++i) {
      __builtin_prefetch(a + (i + kRowsAtOnce) * inner);
      store(to + i * kRows, some.load(a + i * inner));
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
    for (int r = 0; r < kRows; ++r) to[i * kRows + r] = a[r * row + i * inner];
  }
}

using PackRows = void (*)(const float*, std::int64_t, std::int64_t, std::int64_t, float*);

template <int... kRows>
constexpr PackRows pack_rows_for(std::int64_t rows, std::integer_sequence<int, kRows...>) {
  constexpr PackRows all[] = {pack_rows<kRows + 1>...};
  return all[rows - 1];
}

// Columns [first, first + k) of all rows.
void pack_a(const BlockedProduct& p, const RowGroups& groups, std::int64_t first, std::int64_t k,
            float* packed) {
  const std::int64_t at_once = p.a_row == 1 ? kRowsAtOnce : k;
  for (std::int64_t i = 0; i < k; i += at_once) {
    const std::int64_t count = k - i < at_once ? k - i : at_once;
    for (std::int64_t group = 0; group < groups.count; ++group) {
      const std::int64_t rows = groups.size(group);
      pack_rows_for(rows, std::make_integer_sequence<int, kTileRows>{})(
          p.a + groups.begin(group) * p.a_row + (first + i) * p.a_inner, p.a_row, p.a_inner, count,
          packed + groups.packed(group, k) + i * rows);
    }
  }
}

// b (K, columns) → panels (K, kPanelColumns), zero beyond `columns`.
void pack_b_as_it_lies(const float* b, std::int64_t inner, std::int64_t k, std::int64_t columns,
                       float* to) {
  const std::int64_t whole = columns / kPanelColumns, rest = columns % kPanelColumns;
  for (std::int64_t i = 0; i < k; ++i, b += inner, to += kPanelColumns) {
    for (std::int64_t panel = 0; panel < whole; ++panel) {
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) {
        store(to + panel * k * kPanelColumns + v * kLanes,
              load(b + panel * kPanelColumns + v * kLanes));
      }
    }
    if (rest == 0) continue;
    float* const last = to + whole * k * kPanelColumns;
    for (std::int64_t v = 0; v < kTileVectors; ++v) {
      const std::int64_t here = rest - v * kLanes;
      const float* const from = b + whole * kPanelColumns + v * kLanes;
      store(last + v * kLanes, here >= kLanes ? load(from)
                               : here > 0     ? Partial(here).load(from)
                                              : Vector{});
    }
  }
}

// b (columns, K), at most kPanelColumns → (K, kPanelColumns), zero beyond `columns`.
void pack_b_transposed(const float* b, std::int64_t inner, std::int64_t column, std::int64_t k,
                       std::int64_t columns, float* to) {
  for (std::int64_t j = 0; j < kPanelColumns; j += kLanes) {
    const std::int64_t filled = columns - j;
    const float* const from = b + j * column;
    std::int64_t i = 0;
    for (; inner == 1 && i + kLanes <= k; i += kLanes) {
      Vector rows[kLanes];
#pragma GCC unroll 16
      for (int r = 0; r < kLanes; ++r)
        rows[r] = r < filled ? load(from + r * column + i) : Vector{};
      transpose(rows);
#pragma GCC unroll 16
      for (int r = 0; r < kLanes; ++r) store(to + (i + r) * kPanelColumns + j, rows[r]);
    }
    for (; i < k; ++i) {
      for (std::int64_t r = 0; r < kLanes; ++r) {
        to[i * kPanelColumns + j + r] = r < filled ? from[r * column + i * inner] : 0.0f;
      }
    }
  }
}

// Rows [first, first + k) of columns from `column` on.
void pack_b(const BlockedProduct& p, std::int64_t first, std::int64_t k, std::int64_t column,
            std::int64_t columns, float* packed) {
  const float* const b = p.b + first * p.b_inner + column * p.b_column;
  if (p.b_column == 1) return pack_b_as_it_lies(b, p.b_inner, k, columns, packed);
  for (std::int64_t j = 0; j < columns; j += kPanelColumns) {
    const std::int64_t here = columns - j < kPanelColumns ? columns - j : kPanelColumns;
    pack_b_transposed(b + j * p.b_column, p.b_inner, p.b_column, k, here, packed + j * k);
  }
}

// Fetches a panel that is packed soon, bit by bit while tiles are multiplied.
class PanelFetch {
 public:
  // Rows [first, first + k) of the panel from `column` on, in so many turns.
  PanelFetch(const BlockedProduct& p, std::int64_t first, std::int64_t k, std::int64_t column,
             std::int64_t turns) {
    if (column >= p.n) return;
    constexpr std::int64_t kLine = 16;  // floats
    const std::int64_t columns = p.n - column < kPanelColumns ? p.n - column : kPanelColumns;
    at_ = p.b + first * p.b_inner + column * p.b_column;
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
      at_ += 16;
      if (++line_ < lines_) continue;
      line_ = 0;
      at_ += next_run_;
    }
  }

 private:
  const float* at_ = nullptr;
  std::int64_t lines_ = 0, next_run_ = 0, a_turn_ = 0, left_ = 0, line_ = 0;
};

TRAINGRAPH_INLINE Vector scaled(Vector sum, float alpha, Vector bias, bool relu) {
  sum = sum * alpha + bias;
  return relu ? (sum < 0.0f ? Vector{} : sum) : sum;
}

// What a tile's sums over one block of K become.
struct TileEnd {
  std::int64_t row, column, columns;  // of the block
  bool first, last;                   // blocks of K
};

// A part of a row of c: `sum` of this block of K and what is there from those before.
TRAINGRAPH_INLINE void end_row(const BlockedProduct& p, const TileEnd& end, std::int64_t row,
                               std::int64_t column, Vector sum, const Partial* partial) {
  float* const to = p.c + row * p.c_row + column;
  if (!end.first) sum += partial != nullptr ? partial->load(to) : load(to);
  if (end.last) {
    Vector bias{};
    if (p.bias != nullptr) {
      bias = partial != nullptr ? partial->load(p.bias + column) : load(p.bias + column);
    }
    sum = scaled(sum, p.alpha, bias, p.relu);
  }
  if (partial != nullptr) {
    partial->store(to, sum);
  } else {
    store(to, sum);
  }
}

void end_row_wide(const BlockedProduct& p, const TileEnd& end, std::int64_t row,
                  std::int64_t column, Vector sum, std::int64_t count) {
  double* const to = p.sums + row * p.c_row + column;
  for (std::int64_t i = 0; i < count; ++i) {
    to[i] = (end.first ? 0.0 : to[i]) + static_cast<double>(sum[i]);
  }
}

// a (K, kRows) and b (K, kPanelColumns), packed.
template <int kRows>
void blocked_tile(const BlockedProduct& p, std::int64_t k, const float* a, const float* b,
                  TileEnd end) {
  Vector sums[kRows][kTileVectors]{};
  if (p.sums == nullptr) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      __builtin_prefetch(p.c + (end.row + r) * p.c_row + end.column, 1);
    }
  }
#pragma GCC unroll 4
  for (std::int64_t i = 0; i < k; ++i, a += kRows, b += kPanelColumns) {
    Vector right[kTileVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) right[v] = load(b + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const float factor = a[r];
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) sums[r][v] += factor * right[v];
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kTileVectors; ++v) {
    const std::int64_t column = end.column + v * kLanes;
    const std::int64_t left = end.columns - v * kLanes;
    if (left <= 0) return;
    if (p.sums != nullptr) {
      const std::int64_t count = left < kLanes ? left : kLanes;
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        end_row_wide(p, end, end.row + r, column, sums[r][v], count);
      }
    } else if (left >= kLanes) {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        end_row(p, end, end.row + r, column, sums[r][v], nullptr);
      }
    } else {
      const Partial partial(left);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        end_row(p, end, end.row + r, column, sums[r][v], &partial);
      }
    }
  }
}

using BlockedTile = void (*)(const BlockedProduct&, std::int64_t, const float*, const float*,
                             TileEnd);

template <int... kRows>
constexpr BlockedTile blocked_tile_for(std::int64_t rows, std::integer_sequence<int, kRows...>) {
  constexpr BlockedTile all[] = {blocked_tile<kRows + 1>...};
  return all[rows - 1];
}

std::int64_t packed_a_floats(std::int64_t m, std::int64_t k) {
  const RowGroups groups(m);
  return (groups.packed(groups.count, k) + kLanes + 15) / 16 * 16;
}

// Of any product within these extents: a shorter K may have longer blocks.
std::int64_t blocked_scratch_floats(std::int64_t m, std::int64_t n, std::int64_t k) {
  const std::int64_t block = k < kInner ? k : kInner;
  const std::int64_t panels = (n + kPanelColumns - 1) / kPanelColumns;
  return packed_a_floats(m, block) + (panels < kPanels ? panels : kPanels) * kPanelColumns * block;
}

// `scratch` begins a cache line.
void blocked_multiply(const BlockedProduct& p, float* scratch) {
  const RowGroups groups(p.m);
  const std::int64_t block = inner_block(p.k);
  float* const packed_a = scratch;
  float* const packed_b = scratch + packed_a_floats(p.m, block);
  for (std::int64_t first = 0; first < p.k; first += block) {
    const std::int64_t k = p.k - first < block ? p.k - first : block;
    pack_a(p, groups, first, k, packed_a);
    for (std::int64_t j = 0; j < p.n; j += kPanelColumns) {
      const std::int64_t panel = j / kPanelColumns % kPanels, left = p.n - j;
      if (panel == 0) {
        constexpr std::int64_t kMost = kPanels * kPanelColumns;
        pack_b(p, first, k, j, left < kMost ? left : kMost, packed_b);
      }
      PanelFetch fetch(p, first, k, j + kPanels * kPanelColumns, groups.count);
      for (std::int64_t group = 0; group < groups.count; ++group) {
        fetch.take_turn();
        const TileEnd end{groups.begin(group), j, left < kPanelColumns ? left : kPanelColumns,
                          first == 0, first + k == p.k};
        blocked_tile_for(groups.size(group), std::make_integer_sequence<int, kTileRows>{})(
            p, k, packed_a + groups.packed(group, k), packed_b + panel * k * kPanelColumns, end);
      }
    }
  }
}

// At most a vector of columns.
template <class Number>
TRAINGRAPH_INLINE void add_vector(const Number* rows, std::int64_t parts, std::int64_t apart,
                                  float alpha, const float* bias, bool relu, std::int64_t columns,
                                  float* c) {
  Number sums[kLanes]{};
  float narrow[kLanes];
  for (std::int64_t part = 0; part < parts; ++part) {
    for (std::int64_t i = 0; i < columns; ++i) sums[i] += rows[part * apart + i];
  }
  for (std::int64_t i = 0; i < kLanes; ++i) narrow[i] = static_cast<float>(sums[i]);
  const Partial partial(columns);
  const Vector shift = bias == nullptr ? Vector{} : partial.load(bias);
  partial.store(c, scaled(load(narrow), alpha, shift, relu));
}

template <class Number>
void add_parts(const Number* rows, std::int64_t parts, std::int64_t apart, float alpha,
               const float* bias, bool relu, std::int64_t columns, float* c) {
  std::int64_t j = 0;
  for (; j + kLanes <= columns; j += kLanes) {
    add_vector(rows + j, parts, apart, alpha, bias == nullptr ? nullptr : bias + j, relu, kLanes,
               c + j);
  }
  if (j == columns) return;
  add_vector(rows + j, parts, apart, alpha, bias == nullptr ? nullptr : bias + j, relu, columns - j,
             c + j);
}

}  // namespace

extern const BlockedProductLoops blocked_product_loops;
const BlockedProductLoops blocked_product_loops{
    kPreferred,       kPanelColumns,    blocked_scratch_floats,
    blocked_multiply, add_parts<float>, add_parts<double>};

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
