// LSTM cells of one step and their gradient, gates and states fused in one loop over units, and the
// packing of U into panels of two gates.
#include "backends/cpu/isa/lstm.h"

#include "backends/cpu/isa/math.h"
#include "backends/cpu/isa/products/product_vectors.h"
#include "backends/cpu/isa/vector.h"

namespace traingraph::cpu::TRAINGRAPH_ISA {
namespace {

TRAINGRAPH_INLINE float sigmoid(float x) {
  return ir::scalar::sigmoid<Math>::value<float>(x, 0, 0, 0);
}
TRAINGRAPH_INLINE float sigmoid_gradient(float dy, float y) {
  return ir::scalar::sigmoid_gradient<Math>::value<float>(dy, y, 0, 0);
}
TRAINGRAPH_INLINE float tanh_gradient(float dy, float y) {
  return ir::scalar::tanh_gradient<Math>::value<float>(dy, y, 1, 1);
}

// One row; kUnits 0: as many as there are.
template <bool kPeepholes, int kUnits>
TRAINGRAPH_INLINE void row_of_cells(const LstmCells& cells, std::int64_t row) {
  const std::int64_t units = kUnits > 0 ? kUnits : cells.units, hidden = cells.hidden;
  const float* const sums = cells.sums + row * 2 * cells.units_apart;
  const float* const more_sums = sums + cells.pairs_apart;
  const float* const inputs = cells.inputs + row * cells.inputs_row;
  float* const c = cells.cell + row * cells.state_row;
  float* const h = cells.hidden_state + row * cells.state_row;
  float* const y = cells.result + row * cells.result_row;
  const float* const peepholes = cells.peepholes;
  float gates[4][kUnits > 0 ? kUnits : kLanes];
#pragma omp simd
  for (std::int64_t j = 0; j < units; ++j) {
    float in = inputs[j] + sums[j];
    float forget = inputs[hidden + j] + sums[cells.units_apart + j];
    const float candidate = Math::tanh(inputs[2 * hidden + j] + more_sums[j]);
    float out = inputs[3 * hidden + j] + more_sums[cells.units_apart + j];
    if (kPeepholes) {
      in += peepholes[j] * c[j];
      forget += peepholes[hidden + j] * c[j];
    }
    in = sigmoid(in);
    forget = sigmoid(forget);
    const float moved = forget * c[j] + in * candidate;
    if (kPeepholes) out += peepholes[2 * hidden + j] * moved;
    out = sigmoid(out);
    gates[0][j] = in;
    gates[1][j] = forget;
    gates[2][j] = candidate;
    gates[3][j] = out;
    c[j] = moved;
    h[j] = y[j] = out * Math::tanh(moved);
  }
  if (cells.kept_gates == nullptr) return;
  float* const kept = cells.kept_gates + row * cells.inputs_row;
  for (int gate = 0; gate < 4; ++gate) {
#pragma omp simd
    for (std::int64_t j = 0; j < units; ++j) kept[gate * hidden + j] = gates[gate][j];
  }
  if (!kPeepholes) return;
  float* const moved = cells.kept_cells + row * cells.result_row;
#pragma omp simd
  for (std::int64_t j = 0; j < units; ++j) moved[j] = c[j];
}

template <bool kPeepholes, int kUnits>
__attribute__((flatten)) void rows_of_cells(const LstmCells& cells) {
  for (std::int64_t row = 0; row < cells.rows; ++row) row_of_cells<kPeepholes, kUnits>(cells, row);
}

void cells_of(const LstmCells& cells) {
  const bool full = cells.units == kLanes;
  if (cells.peepholes != nullptr) {
    (full ? rows_of_cells<true, kLanes> : rows_of_cells<true, 0>)(cells);
  } else {
    (full ? rows_of_cells<false, kLanes> : rows_of_cells<false, 0>)(cells);
  }
}

template <bool kPeepholes, bool kResult>
__attribute__((flatten)) void rows_of_gradient(const LstmCellsGradient& cells) {
  const std::int64_t hidden = cells.hidden;
  const float* const peepholes = cells.peepholes;
  for (std::int64_t row = 0; row < cells.rows; ++row) {
    const float* const dh = cells.hidden_gradient + row * cells.hidden_gradient_row;
    const float* const dy = kResult ? cells.result_gradient + row * cells.result_row : nullptr;
    const float* const gates = cells.gates + row * cells.gates_row;
    const float* const found = cells.found_cells + row * cells.result_row;
    float* const dc = cells.cell_gradient + row * cells.state_row;
    float* const slopes = cells.gates_gradient + row * cells.gates_row;
#pragma omp simd
    for (std::int64_t j = 0; j < cells.units; ++j) {
      const float in = gates[j], forget = gates[hidden + j], candidate = gates[2 * hidden + j],
                  out = gates[3 * hidden + j];
      const float result = Math::tanh(forget * found[j] + in * candidate);
      const float gradient = kResult ? dh[j] + dy[j] : dh[j];
      const float out_slope = sigmoid_gradient(gradient * result, out);
      float cell = dc[j] + tanh_gradient(gradient * out, result);
      if (kPeepholes) cell += peepholes[2 * hidden + j] * out_slope;
      const float in_slope = sigmoid_gradient(cell * candidate, in);
      const float forget_slope = sigmoid_gradient(cell * found[j], forget);
      slopes[j] = in_slope;
      slopes[hidden + j] = forget_slope;
      slopes[2 * hidden + j] = tanh_gradient(cell * in, candidate);
      slopes[3 * hidden + j] = out_slope;
      float back = cell * forget;
      if (kPeepholes) back += peepholes[j] * in_slope + peepholes[hidden + j] * forget_slope;
      dc[j] = back;
    }
  }
}

void gradient_of_cells(const LstmCellsGradient& cells) {
  if (cells.peepholes != nullptr) {
    (cells.result_gradient != nullptr ? rows_of_gradient<true, true>
                                      : rows_of_gradient<true, false>)(cells);
  } else {
    (cells.result_gradient != nullptr ? rows_of_gradient<false, true>
                                      : rows_of_gradient<false, false>)(cells);
  }
}

void pack(const float* weights, std::int64_t hidden, std::int64_t first, float* packed) {
  const std::int64_t units = hidden - first < kLanes ? hidden - first : kLanes;
  const std::int64_t width = 2 * kLanes;
  for (std::int64_t gate = 0; gate < 4; ++gate) {
    const float* const from = weights + (gate * hidden + first) * hidden;
    float* const to = packed + gate / 2 * hidden * width + gate % 2 * kLanes;
    pack_transposed(from, hidden, units, hidden, to, width);
  }
}

}  // namespace

extern const LstmLoops lstm_loops;
const LstmLoops lstm_loops{kLanes, pack, cells_of, gradient_of_cells};

}  // namespace traingraph::cpu::TRAINGRAPH_ISA
