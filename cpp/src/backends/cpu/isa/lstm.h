#pragma once

#include <cstdint>

namespace traingraph::cpu {

// One step of some sequences over some of the hidden units. Rows belong to sequences; what has four
// gates has them `hidden` elements apart, but for `sums`.
struct LstmCells {
  std::int64_t rows, units, hidden;
  const float* sums;  // U h of two gates and two: (2, …, 2, units_apart), `pairs_apart`
  std::int64_t units_apart, pairs_apart;
  const float* inputs;  // W x + b
  std::int64_t inputs_row;
  const float* peepholes;  // or null
  float* cell;             // c, which moves on
  float* hidden_state;     // the next h
  std::int64_t state_row;
  float* result;      // h as the op gives it
  float* kept_gates;  // null: nothing is kept
  float* kept_cells;  // null without peepholes
  std::int64_t result_row;
};

struct LstmCellsGradient {
  std::int64_t rows, units, hidden;
  const float* hidden_gradient;  // from the step behind
  std::int64_t hidden_gradient_row;
  const float* result_gradient;  // null: nothing flows back there
  const float* gates;
  const float* found_cells;
  std::int64_t result_row, gates_row;
  const float* peepholes;  // or null
  float* cell_gradient;    // dc, which moves back
  std::int64_t state_row;
  float* gates_gradient;  // of the gates' arguments
};

// Gates of sigmoid, sigmoid, tanh, sigmoid, and tanh of c.
struct LstmLoops {
  // Units of which two gates make one panel of a product: as many columns as large ones take.
  std::int64_t units;
  // U (4H, H) → (2, H, 2 units) of the units from `first` on; zeros where there are none.
  void (*pack)(const float* weights, std::int64_t hidden, std::int64_t first, float* packed);
  void (*cells)(const LstmCells& cells);
  void (*cells_gradient)(const LstmCellsGradient& cells);
};

}  // namespace traingraph::cpu
