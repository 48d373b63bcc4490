// Matrix products of tiles that lie in the caches, with any distance between rows, for attention.
// As in matrix.cpp, columns go in groups of vectors and rows in groups whose sums stay in
// registers.
#pragma once

#include <utility>

#include "backends/cpu/isa/vector.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {

// c (M, N) = a (M, K) b (K, N), or is added to it. Rows of b and c are dense.
struct TileProduct {
  std::int64_t m, n, k;
  const float* a;
  std::int64_t a_row, a_inner;  // distances of one step along M and along K
  const float* b;
  std::int64_t b_row;
  float* c;
  std::int64_t c_row;
  bool adds;
};

constexpr int kTileRows = 6;
constexpr int kTileVectors = kLanes == 16 ? 4 : 2;

template <int kRows, int kVectors>
void small_tile(const TileProduct& p, std::int64_t row, std::int64_t column, Partial last) {
  const float* a = p.a + row * p.a_row;
  const float* b = p.b + column;
  Vector sums[kRows][kVectors]{};
  for (std::int64_t k = 0; k < p.k; ++k, a += p.a_inner, b += p.b_row) {
    Vector right[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      right[v] = v + 1 < kVectors ? load(b + v * kLanes) : last.load(b + v * kLanes);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const float factor = a[r * p.a_row];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][v] += factor * right[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    float* const c = p.c + (row + r) * p.c_row + column;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* const to = c + v * kLanes;
      const bool full = v + 1 < kVectors;
      if (p.adds) sums[r][v] += full ? load(to) : last.load(to);
      if (full) {
        store(to, sums[r][v]);
      } else {
        last.store(to, sums[r][v]);
      }
    }
  }
}

template <int kVectors, int... kRows>
void tile_of_rows(const TileProduct& p, std::int64_t rows, std::int64_t row, std::int64_t column,
                  Partial last, std::integer_sequence<int, kRows...>) {
  using Tile = void (*)(const TileProduct&, std::int64_t, std::int64_t, Partial);
  constexpr Tile tiles[] = {small_tile<kRows + 1, kVectors>...};
  tiles[rows - 1](p, row, column, last);
}

template <int kVectors>
void tile_columns(const TileProduct& p, std::int64_t column, Partial last) {
  for (std::int64_t row = 0; row < p.m; row += kTileRows) {
    const std::int64_t rows = p.m - row < kTileRows ? p.m - row : kTileRows;
    tile_of_rows<kVectors>(p, rows, row, column, last,
                           std::make_integer_sequence<int, kTileRows>{});
  }
}

inline void multiply_tiles(const TileProduct& p) {
  for (std::int64_t column = 0; column < p.n; column += kTileVectors * kLanes) {
    const std::int64_t columns = p.n - column;
    const std::int64_t vectors = (columns + kLanes - 1) / kLanes;
    if (vectors >= kTileVectors) {
      const std::int64_t ends = columns - (kTileVectors - 1) * kLanes;
      tile_columns<kTileVectors>(p, column, Partial(ends < kLanes ? ends : kLanes));
      continue;
    }
    const Partial last(columns - (vectors - 1) * kLanes);
    if constexpr (kTileVectors == 4) {
      if (vectors == 3) tile_columns<3>(p, column, last);
      if (vectors == 2) tile_columns<2>(p, column, last);
    }
    if (vectors == 1) tile_columns<1>(p, column, last);
  }
}

// x (rows, columns), rows `row` apart → to (columns, width), zero beyond `rows`; rows <= width, and
// width is a multiple of kLanes.
inline void transpose_tile(const float* x, std::int64_t row, std::int64_t rows,
                           std::int64_t columns, std::int64_t width, float* to) {
  for (std::int64_t column = 0; column < columns; column += kLanes) {
    const std::int64_t here = columns - column < kLanes ? columns - column : kLanes;
    const Partial part(here);
    for (std::int64_t first = 0; first < width; first += kLanes) {
      Vector square[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) {
        square[i] = first + i < rows ? part.load(x + (first + i) * row + column) : Vector{};
      }
      transpose(square);
      for (std::int64_t i = 0; i < here; ++i) store(to + (column + i) * width + first, square[i]);
    }
  }
}

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
