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
  bool rounds;  // c has the type of b, which is of 16 bits; otherwise it is float
  // At least M. Sums are ordered as for this many rows, so that a row has the same bits in a group
  // of fewer.
  std::int64_t order_rows;
};

struct MatrixLoops {
  using Panel = void (*)(const MatrixProduct& product, const float* a, const void* b,
                         const float* bias, void* c, std::int64_t column, std::int64_t columns,
                         float* packed);
  using Dots = void (*)(const MatrixProduct& product, const float* a, const void* b,
                        const float* bias, void* c, std::int64_t column, std::int64_t columns);

  // Columns a panel has, but for the last one.
  std::int64_t panel_columns;
  // Columns [column, column + columns) of c, for b of float32, float16 and bfloat16. `packed` takes
  // K * panel_columns floats; for b transposed or of 16 bits.
  Panel panel[3];
  // The same for few rows over b transposed, without packing; a's rows are dense.
  Dots dots[3];
};

}  // namespace traingraph::cpu
