#pragma once

#include <cstdint>

namespace traingraph::cpu {

// One block of c (M, N) = alpha a (M, K) b (K, N), then + bias (N), then relu. Its operands are
// packed as they are needed, so any distances between their elements will do, and those of 16 bits
// are widened on the way.
struct BlockedProduct {
  std::int64_t m, n, k;
  const void* a;
  std::int64_t a_row, a_inner;  // distances of one step along M and along K
  const void* b;
  std::int64_t b_inner, b_column;  // along K and along N
  float* c;                        // overwritten; its columns are dense
  double* sums;                    // if not null, the result without alpha, bias and relu goes here
  std::int64_t c_row;              // of c, or of sums
  void* y;                         // if not null, the result goes here, rounded to the operands'
  std::int64_t y_row;              // type; c then holds sums between blocks of K, if several
  const float* bias;               // or null
  float alpha;
  bool relu;
};

// How each sum is ordered depends on K alone: blocks of K one after the other, and within a block
// term after term. So an element has the same bits wherever it lies in the matrix.
struct BlockedProductLoops {
  // Whether these loops are the fastest products of the level that a build has.
  bool preferred;
  std::int64_t panel_columns;  // a block has a multiple of it, but for the last one
  // Enough for all products of at most these extents.
  std::int64_t (*scratch_floats)(std::int64_t m, std::int64_t n, std::int64_t k);
  // Whether sums over K take several blocks.
  bool (*has_blocks)(std::int64_t k);
  // Operands of float32, float16 and bfloat16.
  void (*multiply[3])(const BlockedProduct& product, float* scratch);
  // c (columns) = alpha (the sum of `parts` rows, `apart` elements from one to the next) + bias,
  // then relu. The rows are added in their order.
  void (*add_floats)(const float* rows, std::int64_t parts, std::int64_t apart, float alpha,
                     const float* bias, bool relu, std::int64_t columns, float* c);
  void (*add_doubles)(const double* rows, std::int64_t parts, std::int64_t apart, float alpha,
                      const float* bias, bool relu, std::int64_t columns, float* c);
};

}  // namespace traingraph::cpu
