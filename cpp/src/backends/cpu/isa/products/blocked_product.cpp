// Products of matrices beyond the caches. A block of a is packed so that it stays in the second
// cache, and some panels of b's columns so that each is in the nearest one while all rows of the
// block pass over it. A tile of c stays in registers over a block of K.
#include "backends/cpu/isa/products/blocked_product.h"

#include "backends/cpu/isa/products/packing.h"
#include "backends/cpu/isa/products/product_vectors.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {
namespace {

#if defined(__AVX512F__)
constexpr bool kPreferred = false;  // oneDNN's take 4 to 5 % less time for large ones
#else
constexpr bool kPreferred = true;
#endif

// What a tile's sums over one block of K become.
struct TileEnd {
  std::int64_t row, column, columns;  // of the block
  bool first, last;                   // blocks of K
  bool plain;                         // whole rows of floats are stored or added, and no more
};

// A part of a row of c: `sum` of this block of K and what is there from those before. The last
// block's may go to y instead, whose elements are Y.
template <class Y>
TRAINGRAPH_INLINE void end_row(const BlockedProduct& p, const TileEnd& end, std::int64_t row,
                               std::int64_t column, Vector sum, const Partial* partial) {
  float* const to = p.c + row * p.c_row + column;
  if (!end.first) sum += partial != nullptr ? partial->load(to) : load(to);
  if (end.last) {
    Vector bias{};
    if (p.bias != nullptr) {
      bias = partial != nullptr ? partial->load(p.bias + column) : load(p.bias + column);
    }
    sum = finished(sum, p.alpha, bias, p.relu);
    if constexpr (Half<Y>) {
      Y* const rounded = static_cast<Y*>(p.y) + row * p.y_row + column;
      return partial != nullptr ? store(rounded, sum, *partial) : store(rounded, sum);
    }
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

// a (K, kRows) and b (K, kPanelColumns), packed. Y: float, or what a result of 16 bits has.
template <class Y, int kRows>
TRAINGRAPH_INLINE void blocked_tile(const BlockedProduct& p, std::int64_t k, const float* a,
                                    const float* b, TileEnd end) {
  Vector sums[kRows][kPanelVectors]{};
  if (p.sums == nullptr && !(Half<Y> && end.first)) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      __builtin_prefetch(p.c + (end.row + r) * p.c_row + end.column, 1);
    }
  }
#pragma GCC unroll 4
  for (std::int64_t i = 0; i < k; ++i, a += kRows, b += kPanelColumns) {
    Vector right[kPanelVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kPanelVectors; ++v) right[v] = load(b + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const float factor = a[r];
#pragma GCC unroll 4
      for (int v = 0; v < kPanelVectors; ++v) sums[r][v] += factor * right[v];
    }
  }
  if (end.plain) {
    float* const to = p.c + end.row * p.c_row + end.column;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kPanelVectors; ++v) {
        float* const c = to + r * p.c_row + v * kLanes;
        store(c, end.first ? sums[r][v] : sums[r][v] + load(c));
      }
    }
    return;
  }
#pragma GCC unroll 4
  for (int v = 0; v < kPanelVectors; ++v) {
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
        end_row<Y>(p, end, end.row + r, column, sums[r][v], nullptr);
      }
    } else {
      const Partial partial(left);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        end_row<Y>(p, end, end.row + r, column, sums[r][v], &partial);
      }
    }
  }
}

using BlockedTile = void (*)(const BlockedProduct&, std::int64_t, const float*, const float*,
                             TileEnd);

template <class Y, int... kRows>
constexpr BlockedTile blocked_tile_for(std::int64_t rows, std::integer_sequence<int, kRows...>) {
  constexpr BlockedTile all[] = {blocked_tile<Y, kRows + 1>...};
  return all[rows - 1];
}

// Of any product within these extents: a shorter K may have longer blocks.
std::int64_t blocked_scratch_floats(std::int64_t m, std::int64_t n, std::int64_t k) {
  const std::int64_t block = k < kInner ? k : kInner;
  const std::int64_t panels = (n + kPanelColumns - 1) / kPanelColumns;
  return packed_a_floats(m, block) + (panels < kPanels ? panels : kPanels) * kPanelColumns * block;
}

bool has_blocks(std::int64_t k) { return inner_block(k) < k; }

// T: the operands' elements, Y: float or T. `scratch` begins a cache line.
template <class T, class Y>
void multiply_blocks(const BlockedProduct& p, float* scratch) {
  const RowGroups groups(p.m);
  const std::int64_t block = inner_block(p.k);
  const bool has_tail = Half<Y> || p.alpha != 1.0f || p.bias != nullptr || p.relu;
  float* const packed_a = scratch;
  float* const packed_b = scratch + packed_a_floats(p.m, block);
  for (std::int64_t first = 0; first < p.k; first += block) {
    const std::int64_t k = p.k - first < block ? p.k - first : block;
    pack_a<T>(p, groups, first, k, packed_a);
    for (std::int64_t j = 0; j < p.n; j += kPanelColumns) {
      const std::int64_t panel = j / kPanelColumns % kPanels, left = p.n - j;
      if (panel == 0) {
        constexpr std::int64_t kMost = kPanels * kPanelColumns;
        pack_b<T>(p, first, k, j, left < kMost ? left : kMost, packed_b);
      }
      PanelFetch<T> fetch(p, first, k, j + kPanels * kPanelColumns, groups.count);
      const bool last = first + k == p.k;
      const bool plain = p.sums == nullptr && left >= kPanelColumns && !(last && has_tail);
      TileEnd end{0, j, left < kPanelColumns ? left : kPanelColumns, first == 0, last, plain};
      const float* const columns = packed_b + panel * k * kPanelColumns;
      for (std::int64_t group = 0; group < groups.count; ++group) {
        fetch.take_turn();
        end.row = groups.begin(group);
        const float* const rows = packed_a + groups.packed(group, k);
        if (groups.size(group) == kGroupRows) {  // nearly all of them, without a call
          blocked_tile<Y, kGroupRows>(p, k, rows, columns, end);
        } else {
          blocked_tile_for<Y>(groups.size(group), std::make_integer_sequence<int, kGroupRows>{})(
              p, k, rows, columns, end);
        }
      }
    }
  }
}

template <class T>
void blocked_multiply(const BlockedProduct& p, float* scratch) {
  if constexpr (Half<T>) {
    if (p.y != nullptr) return multiply_blocks<T, T>(p, scratch);
  }
  multiply_blocks<T, float>(p, scratch);
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
  partial.store(c, finished(load(narrow), alpha, shift, relu));
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
    kPreferred,
    kPanelColumns,
    blocked_scratch_floats,
    has_blocks,
    {blocked_multiply<float>, blocked_multiply<Float16>, blocked_multiply<BFloat16>},
    add_parts<float>,
    add_parts<double>};

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
