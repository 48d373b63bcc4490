// Matrix products small enough to stay in the caches. Columns go in panels of a few vectors, rows
// in groups whose sums stay in registers; elements of a are broadcast.
#include "backends/cpu/isa/products/matrix.h"

#include "backends/cpu/isa/products/product_vectors.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {
namespace {

// Sums of one tile: kRows * kVectors of the 32 or 16 vector registers.
constexpr int kTallRows = kLanes == 16 ? 8 : 6;  // with two vectors
constexpr int kFlatRows = kLanes == 16 ? 4 : 3;  // with four
constexpr int kMostVectors = 4;
constexpr int kDotRows = kLanes == 16 ? 4 : 2;

// Rows a[0 … kRows), kVectors vectors of columns. `b` steps by b_row along K. kSets sums of every
// kSets-th term each are added in the end.
template <int kSets, int kVectors, int kRows>
void tile(const MatrixProduct& p, const float* a, const float* b, std::int64_t b_row,
          const float* bias, float* c, Partial last) {
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
      float* to = c + r * p.n + v * kLanes;
      if (full) {
        store(to, sum);
      } else {
        last.store(to, sum);
      }
    }
  }
}

using TileLoop = void (*)(const MatrixProduct&, const float*, const float*, std::int64_t,
                          const float*, float*, Partial);

template <int kSets, int kVectors, int... kRows>
constexpr TileLoop tile_for(std::int64_t rows, std::integer_sequence<int, kRows...>) {
  constexpr TileLoop tiles[] = {tile<kSets, kVectors, kRows + 1>...};
  return tiles[rows - 1];
}

// All rows over one group of kVectors vectors.
template <int kVectors, int kMaxRows, int kSets>
void rows_in_sets(const MatrixProduct& p, const float* a, const float* b, std::int64_t b_row,
                  const float* bias, float* c, Partial last) {
  std::int64_t rows = 0;
  for (std::int64_t row = 0; row < p.m; row += rows) {
    // The last two groups share what is left evenly, rather than leave one with a single row.
    const std::int64_t left = p.m - row;
    rows = left >= std::int64_t{2} * kMaxRows || left == kMaxRows ? kMaxRows
           : left > kMaxRows                                      ? (left + 1) / 2
                                                                  : left;
    tile_for<kSets, kVectors>(rows, std::make_integer_sequence<int, kMaxRows>{})(
        p, a + row * p.a_row, b, b_row, bias, c + row * p.n, last);
  }
}

template <int kVectors, int kMaxRows>
void all_rows(const MatrixProduct& p, const float* a, const float* b, std::int64_t b_row,
              const float* bias, float* c, Partial last) {
  // Where sums are few, several sets of them hide the latency of a multiplication with addition.
  // All rows have as many, for they are to be added in one order.
  const std::int64_t sums = (p.order_rows < kMaxRows ? p.order_rows : kMaxRows) * kVectors;
  // Rows that have fewer than 8, and than 4 sums.
  constexpr int kFew = kMaxRows < 7 / kVectors ? kMaxRows : 7 / kVectors;
  constexpr int kVeryFew = 3 / kVectors;
  if constexpr (kVeryFew > 0) {
    if (sums < 4) return rows_in_sets<kVectors, kVeryFew, 4>(p, a, b, b_row, bias, c, last);
  }
  if (sums < 8) return rows_in_sets<kVectors, kFew, 2>(p, a, b, b_row, bias, c, last);
  rows_in_sets<kVectors, kMaxRows, 1>(p, a, b, b_row, bias, c, last);
}

// b (columns, K) → packed (K, width), zero beyond `columns`.
void pack(const float* b, std::int64_t columns, std::int64_t inner, std::int64_t width,
          float* packed) {
  for (std::int64_t j = 0; j < width; j += kLanes) {
    pack_transposed(b + j * inner, inner, columns - j, inner, packed + j, width);
  }
}

void panel(const MatrixProduct& p, const float* a, const float* b, const float* bias, float* c,
           std::int64_t column, std::int64_t columns, float* packed) {
  while (columns > 0) {
    // Few rows take as many columns as there are registers.
    const int most = p.order_rows <= kFlatRows ? kMostVectors : 2;
    const std::int64_t vectors = columns >= most * kLanes ? most : (columns + kLanes - 1) / kLanes;
    const std::int64_t width = columns < vectors * kLanes ? columns : vectors * kLanes;
    const Partial last(width - (vectors - 1) * kLanes);
    const float* from = b + column;
    std::int64_t b_row = p.n;
    if (p.b_transposed) {
      pack(b + column * p.k, width, p.k, vectors * kLanes, packed);
      from = packed;
      b_row = vectors * kLanes;
    }
    const float* shift = bias == nullptr ? nullptr : bias + column;
    switch (vectors) {
      case 1:
        all_rows<1, kTallRows>(p, a, from, b_row, shift, c + column, last);
        break;
      case 2:
        all_rows<2, kTallRows>(p, a, from, b_row, shift, c + column, last);
        break;
      case 3:
        all_rows<3, kFlatRows>(p, a, from, b_row, shift, c + column, last);
        break;
      default:
        all_rows<4, kFlatRows>(p, a, from, b_row, shift, c + column, last);
    }
    column += width;
    columns -= width;
  }
}

// kRows rows of a times kColumns rows of b.
template <int kRows, int kColumns>
void dot_tile(const MatrixProduct& p, const float* a, const float* b, const float* bias, float* c) {
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
    add([](const float* x) __attribute__((always_inline)) { return load(x); });
  }
  if (k < p.k) {
    const Partial rest(p.k - k);
    add([&](const float* x) __attribute__((always_inline)) { return rest.load(x); });
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    float* to = c + r * p.n;
    if constexpr (kColumns == 4) {
      auto sum = sums_of(sums[r][0], sums[r][1], sums[r][2], sums[r][3]) * p.alpha;
      if (bias != nullptr) sum += load<4>(bias);
      store<4>(to, p.relu ? (sum < 0.0f ? VectorOf<4>::type{} : sum) : sum);
    } else {
      float sum = sum_of(sums[r][0]) * p.alpha;
      if (bias != nullptr) sum += *bias;
      *to = p.relu && sum < 0 ? 0 : sum;
    }
  }
}

template <int kRows>
void dot_rows(const MatrixProduct& p, const float* a, const float* b, const float* bias, float* c,
              std::int64_t columns) {
  std::int64_t j = 0;
  for (; j + 4 <= columns; j += 4) {
    dot_tile<kRows, 4>(p, a, b + j * p.k, bias == nullptr ? nullptr : bias + j, c + j);
  }
  for (; j < columns; ++j) {
    dot_tile<kRows, 1>(p, a, b + j * p.k, bias == nullptr ? nullptr : bias + j, c + j);
  }
}

void dots(const MatrixProduct& p, const float* a, const float* b, const float* bias, float* c,
          std::int64_t column, std::int64_t columns) {
  b += column * p.k;
  c += column;
  if (bias != nullptr) bias += column;
  for (std::int64_t row = 0; row < p.m; row += kDotRows) {
    const float* left = a + row * p.a_row;
    float* to = c + row * p.n;
    const std::int64_t rows = p.m - row;
    if (rows >= 4 && kDotRows == 4) {
      dot_rows<kDotRows>(p, left, b, bias, to, columns);
    } else if (rows == 3 && kDotRows == 4) {
      dot_rows<kDotRows == 4 ? 3 : 2>(p, left, b, bias, to, columns);
    } else if (rows >= 2) {
      dot_rows<2>(p, left, b, bias, to, columns);
    } else {
      dot_rows<1>(p, left, b, bias, to, columns);
    }
  }
}

}  // namespace

extern const MatrixLoops matrix_loops;
const MatrixLoops matrix_loops{kMostVectors * kLanes, panel, dots};

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
