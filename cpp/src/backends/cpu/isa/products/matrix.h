#pragma once

#include <cstdint>

namespace traingraph::cpu {

// c (M, N) = alpha a (M, K) b (K, N), then + bias (N), then relu.
struct MatrixProduct {
  std::int64_t m, n, k;
  std::int64_t a_row, a_inner;  // distances in a of one step along M and along K
  bool b_transposed;            // b lies as (N, K) instead of (K, N)
  float alpha;
  bool relu;
  // At least M. Sums are ordered as for this many rows, so that a row has the same bits in a group
  // of fewer.
  std::int64_t order_rows;
};

struct MatrixLoops {
  // Columns a panel has, but for the last one.
  std::int64_t panel_columns;
  // Columns [column, column + columns) of c. `packed` takes K * panel_columns floats; only for b
  // transposed.
  void (*panel)(const MatrixProduct& product, const float* a, const float* b, const float* bias,
                float* c, std::int64_t column, std::int64_t columns, float* packed);
  // The same for few rows over b transposed, without packing; a's rows are dense.
  void (*dots)(const MatrixProduct& product, const float* a, const float* b, const float* bias,
               float* c, std::int64_t column, std::int64_t columns);
};

}  // namespace traingraph::cpu
