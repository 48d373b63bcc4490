// LSTM cells with activations other than sigmoid and tanh, forward and gradient, by scalar lists
// over the units of a row.
#include "backends/cpu/lstm_functions.h"

#include <algorithm>

#include "backends/cpu/isa_select.h"

namespace traingraph::cpu {
namespace {

enum Gate { kInput, kForget, kCandidate, kOutput, kCellResult };

}  // namespace

LstmFunctions::List::List(const ir::ScalarList& list) : list_(list) {
  for (const ir::Instruction& k : list.code) {
    loops_.push_back(loops().elementwise->functions[static_cast<std::size_t>(k.function)].arrays);
  }
}

void LstmFunctions::List::run(std::array<const float*, 3> inputs, float* result, std::int64_t n,
                              float* scratch) const {
  const auto at = [&](int reg) -> const float* {
    if (reg < 0) return scratch;  // nothing reads it
    return reg < list_.inputs ? inputs[static_cast<std::size_t>(reg)]
                              : scratch + (reg - list_.inputs) * n;
  };
  for (std::size_t k = 0; k < loops_.size(); ++k) {
    const ir::Instruction& step = list_.code[k];
    loops_[k](scratch + static_cast<std::int64_t>(k) * n, at(step.x), at(step.y),
              {static_cast<float>(step.p), static_cast<float>(step.q)}, n);
  }
  std::copy_n(at(list_.results[0]), n, result);
}

LstmFunctions::LstmFunctions(const ir::LstmAttributes& a) {
  for (const ir::ScalarList& list : a.activations) values_.emplace_back(list);
  for (const ir::ScalarList& list : a.derivatives) gradients_.emplace_back(list);
}

void LstmFunctions::move(const LstmCells& cells, float* scratch) const {
  const std::int64_t n = cells.units, hidden = cells.hidden;
  const auto row_of = [&](std::int64_t k) { return scratch + k * n; };
  float* const registers = row_of(24);
  const float* const peepholes = cells.peepholes;
  for (std::int64_t row = 0; row < cells.rows; ++row) {
    float* const c = cells.cell + row * cells.state_row;
    float* const h = cells.hidden_state + row * cells.state_row;
    // Arguments in rows 0 to 3, values in rows 4 to 7.
    const auto evaluate = [&](int gate, const float* cell, int which) {
      float* const x = row_of(gate);
      const float* const sums =
          cells.sums + gate / 2 * cells.pairs_apart + (row * 2 + gate % 2) * cells.units_apart;
      const float* const inputs = cells.inputs + row * cells.inputs_row + gate * hidden;
      for (std::int64_t j = 0; j < n; ++j) x[j] = inputs[j] + sums[j];
      for (std::int64_t j = 0; cell != nullptr && j < n; ++j) {
        x[j] += peepholes[which * hidden + j] * cell[j];
      }
      values_[static_cast<std::size_t>(gate)].run({x}, row_of(4 + gate), n, registers);
    };
    evaluate(kInput, peepholes != nullptr ? c : nullptr, 0);
    evaluate(kForget, peepholes != nullptr ? c : nullptr, 1);
    evaluate(kCandidate, nullptr, 0);
    for (std::int64_t j = 0; j < n; ++j) {
      c[j] = row_of(4 + kForget)[j] * c[j] + row_of(4 + kInput)[j] * row_of(4 + kCandidate)[j];
    }
    evaluate(kOutput, peepholes != nullptr ? c : nullptr, 2);
    values_[kCellResult].run({c}, row_of(8), n, registers);
    for (std::int64_t j = 0; j < n; ++j) h[j] = row_of(4 + kOutput)[j] * row_of(8)[j];
    std::copy_n(h, n, cells.result + row * cells.result_row);
    if (cells.kept_gates == nullptr) continue;
    for (int gate = 0; gate < 4; ++gate) {
      std::copy_n(row_of(gate), n, cells.kept_gates + row * cells.inputs_row + gate * hidden);
    }
    if (peepholes != nullptr) std::copy_n(c, n, cells.kept_cells + row * cells.result_row);
  }
}

void LstmFunctions::move_back(const LstmCellsGradient& cells, float* scratch) const {
  const std::int64_t n = cells.units, hidden = cells.hidden;
  const auto row_of = [&](std::int64_t k) { return scratch + k * n; };
  float* const registers = row_of(24);
  const float* const peepholes = cells.peepholes;
  for (std::int64_t row = 0; row < cells.rows; ++row) {
    const float* const dh = cells.hidden_gradient + row * cells.hidden_gradient_row;
    const float* const found = cells.found_cells + row * cells.result_row;
    float* const dc = cells.cell_gradient + row * cells.state_row;
    const auto argument = [&](int gate) {
      return cells.gates + row * cells.gates_row + gate * hidden;
    };
    const auto slopes = [&](int gate) {
      return cells.gates_gradient + row * cells.gates_row + gate * hidden;
    };
    // Values in rows 0 to 3, c in row 4, its function in row 5, dy in row 6, products in row 7.
    for (int gate = 0; gate < 4; ++gate) {
      values_[static_cast<std::size_t>(gate)].run({argument(gate)}, row_of(gate), n, registers);
    }
    float* const moved = row_of(4);
    float* const result = row_of(5);
    float* const dy = row_of(6);
    float* const product = row_of(7);
    for (std::int64_t j = 0; j < n; ++j) {
      moved[j] = row_of(kForget)[j] * found[j] + row_of(kInput)[j] * row_of(kCandidate)[j];
      dy[j] = dh[j];
      if (cells.result_gradient != nullptr) {
        dy[j] += cells.result_gradient[row * cells.result_row + j];
      }
    }
    values_[kCellResult].run({moved}, result, n, registers);
    const auto slope = [&](int gate, const float* x, const float* y) {
      for (std::int64_t j = 0; j < n; ++j) product[j] = x[j] * y[j];
      gradients_[static_cast<std::size_t>(gate)].run({argument(gate), row_of(gate), product},
                                                     slopes(gate), n, registers);
    };
    slope(kOutput, dy, result);
    for (std::int64_t j = 0; j < n; ++j) product[j] = dy[j] * row_of(kOutput)[j];
    gradients_[kCellResult].run({moved, result, product}, dy, n, registers);
    for (std::int64_t j = 0; j < n; ++j) {
      dc[j] += dy[j];
      if (peepholes != nullptr) dc[j] += peepholes[2 * hidden + j] * slopes(kOutput)[j];
    }
    slope(kInput, dc, row_of(kCandidate));
    slope(kForget, dc, found);
    slope(kCandidate, dc, row_of(kInput));
    for (std::int64_t j = 0; j < n; ++j) {
      dc[j] *= row_of(kForget)[j];
      if (peepholes == nullptr) continue;
      dc[j] += peepholes[j] * slopes(kInput)[j] + peepholes[hidden + j] * slopes(kForget)[j];
    }
  }
}

}  // namespace traingraph::cpu
