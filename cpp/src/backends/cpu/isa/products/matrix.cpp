// Matrix products small enough to stay in the caches. Columns go in panels of a few vectors, rows
// in groups whose sums stay in registers; elements of a are broadcast. Those of b may have 16 bits,
// and are widened as a panel is packed. T is their type, to which a result may be rounded.
#include "backends/cpu/isa/products/matrix.h"

#include "backends/cpu/isa/products/product_vectors.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {
namespace {

// Sums of one tile: kRows * kVectors of the 32 or 16 vector registers.
constexpr int kTallRows = kLanes == 16 ? 8 : 6;  // with two vectors
constexpr int kFlatRows = kLanes == 16 ? 4 : 3;  // with four
constexpr int kMostVectors = 4;
constexpr int kDotRows = kLanes == 16 ? 4 : 2;

// To c, or rounded to T where p says so; c (M, N), T or float.
template <class T>
TRAINGRAPH_INLINE void store_result(const MatrixProduct& p, void* c, std::int64_t at, Vector sum,
                                    const Partial* partial) {
  if constexpr (Half<T>) {
    if (p.rounds) {
      T* const to = static_cast<T*>(c) + at;
      return partial != nullptr ? store(to, sum, *partial) : store(to, sum);
    }
  }
  float* const to = static_cast<float*>(c) + at;
  partial != nullptr ? partial->store(to, sum) : store(to, sum);
}

template <class T>
void store_number(const MatrixProduct& p, void* c, std::int64_t at, float x) {
  if constexpr (Half<T>) {
    if (p.rounds) {
      static_cast<T*>(c)[at] = rounded(x, T{});
      return;
    }
  }
  static_cast<float*>(c)[at] = x;
}

// Rows a[0 … kRows), kVectors vectors of columns. `b` steps by b_row along K. kSets sums of every
// kSets-th term each are added in the end. `at` is the tile's first element in c.
template <class T, int kSets, int kVectors, int kRows>
void tile(const MatrixProduct& p, const float* a, const float* b, std::int64_t b_row,
          const float* bias, void* c, std::int64_t at, Partial last) {
  Vector sums[kSets][kRows][kVectors]{};
  std::int64_t k = 0;
  for (; k + kSets <= p.k; k += kSets) {
#pragma GCC unroll 4
    for (int set = 0; set < kSets; ++set) {
      Vector row[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        row[v] = v + 1 < kVectors ? load(b + v * kLanes) : last.load(b + v * kLanes);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const float factor = a[r * p.a_row];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sums[set][r][v] += factor * row[v];
      }
      a += p.a_inner;
      b += b_row;
    }
  }
  for (; k < p.k; ++k, a += p.a_inner, b += b_row) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const Vector row = v + 1 < kVectors ? load(b + v * kLanes) : last.load(b + v * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sums[0][r][v] += a[r * p.a_row] * row;
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const bool full = v + 1 < kVectors;
    Vector shift{};
    if (bias != nullptr) shift = full ? load(bias + v * kLanes) : last.load(bias + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      Vector sum = sums[0][r][v];
#pragma GCC unroll 4
      for (int set = 1; set < kSets; ++set) sum += sums[set][r][v];
      sum = finished(sum, p.alpha, shift, p.relu);
      store_result<T>(p, c, at + r * p.n + v * kLanes, sum, full ? nullptr : &last);
    }
  }
}

using TileLoop = void (*)(const MatrixProduct&, const float*, const float*, std::int64_t,
                          const float*, void*, std::int64_t, Partial);

template <class T, int kSets, int kVectors, int... kRows>
constexpr TileLoop tile_for(std::int64_t rows, std::integer_sequence<int, kRows...>) {
  constexpr TileLoop tiles[] = {tile<T, kSets, kVectors, kRows + 1>...};
  return tiles[rows - 1];
}

// All rows over one group of kVectors vectors.
template <class T, int kVectors, int kMaxRows, int kSets>
void rows_in_sets(const MatrixProduct& p, const float* a, const float* b, std::int64_t b_row,
                  const float* bias, void* c, std::int64_t at, Partial last) {
  std::int64_t rows = 0;
  for (std::int64_t row = 0; row < p.m; row += rows) {
    // The last two groups share what is left evenly, rather than leave one with a single row.
    const std::int64_t left = p.m - row;
    rows = left >= std::int64_t{2} * kMaxRows || left == kMaxRows ? kMaxRows
           : left > kMaxRows                                      ? (left + 1) / 2
                                                                  : left;
    tile_for<T, kSets, kVectors>(rows, std::make_integer_sequence<int, kMaxRows>{})(
        p, a + row * p.a_row, b, b_row, bias, c, at + row * p.n, last);
  }
}

template <class T, int kVectors, int kMaxRows>
void all_rows(const MatrixProduct& p, const float* a, const float* b, std::int64_t b_row,
              const float* bias, void* c, std::int64_t at, Partial last) {
  // Where sums are few, several sets of them hide the latency of a multiplication with addition.
  // All rows have as many, for they are to be added in one order.
  const std::int64_t sums = (p.order_rows < kMaxRows ? p.order_rows : kMaxRows) * kVectors;
  // Rows that have fewer than 8, and than 4 sums.
  constexpr int kFew = kMaxRows < 7 / kVectors ? kMaxRows : 7 / kVectors;
  constexpr int kVeryFew = 3 / kVectors;
  if constexpr (kVeryFew > 0) {
    if (sums < 4) return rows_in_sets<T, kVectors, kVeryFew, 4>(p, a, b, b_row, bias, c, at, last);
  }
  if (sums < 8) return rows_in_sets<T, kVectors, kFew, 2>(p, a, b, b_row, bias, c, at, last);
  rows_in_sets<T, kVectors, kMaxRows, 1>(p, a, b, b_row, bias, c, at, last);
}

// b (columns, K) → packed (K, width), zero beyond `columns`.
template <class T>
void pack(const T* b, std::int64_t columns, std::int64_t inner, std::int64_t width, float* packed) {
  for (std::int64_t j = 0; j < width; j += kLanes) {
    pack_transposed(b + j * inner, inner, columns - j, inner, packed + j, width);
  }
}

// b (K, …), `row` elements from one to the next → packed (K, so many vectors).
template <class T>
void widen_panel(const T* b, std::int64_t row, std::int64_t inner, std::int64_t vectors,
                 Partial last, float* packed) {
  for (std::int64_t k = 0; k < inner; ++k, b += row, packed += vectors * kLanes) {
    for (std::int64_t v = 0; v + 1 < vectors; ++v) {
      store(packed + v * kLanes, load(b + v * kLanes));
    }
    const std::int64_t end = (vectors - 1) * kLanes;
    store(packed + end, load(b + end, last));
  }
}

// One group of so many vectors.
template <class T>
void group_of(const MatrixProduct& p, const float* a, const float* b, std::int64_t b_row,
              const float* bias, void* c, std::int64_t at, std::int64_t vectors, Partial last) {
  switch (vectors) {
    case 1:
      return all_rows<T, 1, kTallRows>(p, a, b, b_row, bias, c, at, last);
    case 2:
      return all_rows<T, 2, kTallRows>(p, a, b, b_row, bias, c, at, last);
    case 3:
      return all_rows<T, 3, kFlatRows>(p, a, b, b_row, bias, c, at, last);
    default:
      return all_rows<T, 4, kFlatRows>(p, a, b, b_row, bias, c, at, last);
  }
}

template <class T>
void panel(const MatrixProduct& p, const float* a, const void* b, const float* bias, void* c,
           std::int64_t column, std::int64_t columns, float* packed) {
  const T* const right = static_cast<const T*>(b);
  while (columns > 0) {
    // Few rows take as many columns as there are registers.
    const int most = p.order_rows <= kFlatRows ? kMostVectors : 2;
    const std::int64_t vectors = columns >= most * kLanes ? most : (columns + kLanes - 1) / kLanes;
    const std::int64_t width = columns < vectors * kLanes ? columns : vectors * kLanes;
    const Partial last(width - (vectors - 1) * kLanes);
    const float* const shift = bias == nullptr ? nullptr : bias + column;
    const std::int64_t packed_row = vectors * kLanes;
    if (p.b_transposed) {
      pack(right + column * p.k, width, p.k, packed_row, packed);
    } else if constexpr (Half<T>) {
      widen_panel(right + column, p.n, p.k, vectors, last, packed);
    } else {
      group_of<T>(p, a, right + column, p.n, shift, c, column, vectors, last);
    }
    if (p.b_transposed || Half<T>) {
      group_of<T>(p, a, packed, packed_row, shift, c, column, vectors, last);
    }
    column += width;
    columns -= width;
  }
}

// kRows rows of a times kColumns rows of b.
template <class T, int kRows, int kColumns>
void dot_tile(const MatrixProduct& p, const float* a, const T* b, const float* bias, void* c,
              std::int64_t at) {
  Vector sums[kRows][kColumns]{};
  std::int64_t k = 0;
  auto add = [&](auto&& read) __attribute__((always_inline)) {
    Vector left[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) left[r] = read(a + r * p.a_row + k);
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) {
      const Vector right = read(b + j * p.k + k);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) sums[r][j] += left[r] * right;
    }
  };
  for (; k + kLanes <= p.k; k += kLanes) {
    add([](const auto* x) __attribute__((always_inline)) { return load(x); });
  }
  if (k < p.k) {
    const Partial rest(p.k - k);
    add([&](const auto* x) __attribute__((always_inline)) { return load(x, rest); });
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    float ends[kColumns];
    if constexpr (kColumns == 4) {
      auto sum = sums_of(sums[r][0], sums[r][1], sums[r][2], sums[r][3]) * p.alpha;
      if (bias != nullptr) sum += load<4>(bias);
      store<4>(ends, p.relu ? (sum < 0.0f ? VectorOf<4>::type{} : sum) : sum);
    } else {
      float sum = sum_of(sums[r][0]) * p.alpha;
      if (bias != nullptr) sum += *bias;
      ends[0] = p.relu && sum < 0 ? 0 : sum;
    }
    for (int j = 0; j < kColumns; ++j) store_number<T>(p, c, at + r * p.n + j, ends[j]);
  }
}

template <class T, int kRows>
void dot_rows(const MatrixProduct& p, const float* a, const T* b, const float* bias, void* c,
              std::int64_t at, std::int64_t columns) {
  std::int64_t j = 0;
  for (; j + 4 <= columns; j += 4) {
    dot_tile<T, kRows, 4>(p, a, b + j * p.k, bias == nullptr ? nullptr : bias + j, c, at + j);
  }
  for (; j < columns; ++j) {
    dot_tile<T, kRows, 1>(p, a, b + j * p.k, bias == nullptr ? nullptr : bias + j, c, at + j);
  }
}

template <class T>
void dots(const MatrixProduct& p, const float* a, const void* all_b, const float* bias, void* c,
          std::int64_t column, std::int64_t columns) {
  const T* const b = static_cast<const T*>(all_b) + column * p.k;
  if (bias != nullptr) bias += column;
  for (std::int64_t row = 0; row < p.m; row += kDotRows) {
    const float* left = a + row * p.a_row;
    const std::int64_t at = row * p.n + column;
    const std::int64_t rows = p.m - row;
    if (rows >= 4 && kDotRows == 4) {
      dot_rows<T, kDotRows>(p, left, b, bias, c, at, columns);
    } else if (rows == 3 && kDotRows == 4) {
      dot_rows<T, kDotRows == 4 ? 3 : 2>(p, left, b, bias, c, at, columns);
    } else if (rows >= 2) {
      dot_rows<T, 2>(p, left, b, bias, c, at, columns);
    } else {
      dot_rows<T, 1>(p, left, b, bias, c, at, columns);
    }
  }
}

}  // namespace

extern const MatrixLoops matrix_loops;
const MatrixLoops matrix_loops{kMostVectors * kLanes,
                               {panel<float>, panel<Float16>, panel<BFloat16>},
                               {dots<float>, dots<Float16>, dots<BFloat16>}};

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
