#pragma once

#include <cstdint>

namespace traingraph::cpu {

// How products (M, N, K) are cut into tasks: each result into blocks of rows and columns, and K
// into parts whose sums are added in their order. A function of the shape alone.
struct MatmulCut {
  std::int64_t rows = 1, columns = 1, parts = 1;  // how many
  bool wide = false;                              // float64 between blocks of K

  std::int64_t tasks() const { return rows * columns * parts; }  // of each product
  // Sums beside the result, for they are no result yet.
  bool has_sums() const { return parts > 1 || wide; }
};

MatmulCut matmul_cut_of(std::int64_t matrices, std::int64_t m, std::int64_t n, std::int64_t k);

// Columns that a thread multiplies at one time at most, so that its results stay in the last cache.
inline constexpr std::int64_t kMostColumns = 2048;

// Where part `index` of `count` begins among `extent` that are cut at multiples of `unit`; `extent`
// for index == count.
inline std::int64_t cut_begin(std::int64_t extent, std::int64_t unit, std::int64_t count,
                              std::int64_t index) {
  const std::int64_t begin = (extent + unit - 1) / unit * index / count * unit;
  return begin < extent ? begin : extent;
}

}  // namespace traingraph::cpu
