// One layer and direction of an LSTM and its gradient, step by step, with any activations,
// peepholes and lengths.
#include <algorithm>

#include "backends/reference/call.h"
#include "runtime/lstm_steps.h"

namespace traingraph::reference {
namespace {

using ir::LstmAttributes;
using ir::LstmOperands;

enum Gate { kInput, kForget, kCandidate, kOutput, kCellResult, kFunctions };

// The functions of the gates and of c, and their derivatives.
class Functions {
 public:
  explicit Functions(const LstmAttributes& a) : attributes_(a) {}

  // Whether kept gates are values, and no arguments of the functions.
  bool usual() const { return attributes_.activations.empty(); }

  double value(int k, double x) const {
    if (!usual()) return run(attributes_.activations[static_cast<std::size_t>(k)], x, 0, 0);
    return is_tanh(k) ? std::tanh(x) : ir::scalar::sigmoid<StandardMath>::value(x, 0.0, 0.0, 0.0);
  }
  // Of x, the value there and the gradient of the value.
  double gradient(int k, double x, double y, double dy) const {
    if (!usual()) return run(attributes_.derivatives[static_cast<std::size_t>(k)], x, y, dy);
    return is_tanh(k) ? ir::scalar::tanh_gradient<StandardMath>::value(dy, y, 1.0, 1.0)
                      : ir::scalar::sigmoid_gradient<StandardMath>::value(dy, y, 0.0, 0.0);
  }

 private:
  static bool is_tanh(int k) { return k == kCandidate || k == kCellResult; }

  static double run(const ir::ScalarList& list, double x, double y, double dy) {
    double registers[LstmAttributes::kMostRegisters] = {x, y, dy};
    int next = list.inputs;
    for (const ir::Instruction& k : list.code) {
      registers[next++] = ir::scalar::evaluate<StandardMath, double>(
          k.function, k.x >= 0 ? registers[k.x] : 0, k.y >= 0 ? registers[k.y] : 0, k.p, k.q);
    }
    return registers[list.results[0]];
  }

  const LstmAttributes& attributes_;
};

template <class T>
const T* given(const Call& call, int operand) {
  return operand < 0 ? nullptr : call.in<T>(static_cast<std::size_t>(operand));
}

// Every result, where lengths make no sense.
template <class T>
bool refused(const Call& call, const LstmSteps& steps, const std::int32_t* lengths) {
  if (steps.allows(lengths)) return false;
  for (std::size_t k = 0; k < call.outputs.size(); ++k) {
    std::fill_n(call.out<T>(k), call.outputs[k].elements(), std::numeric_limits<T>::quiet_NaN());
  }
  return true;
}

}  // namespace

// Per step: gates (W x + b given) + U h, c' = f c + i g, h' = o act(c').
template <class T>
void lstm(const Call& call) {
  const auto& a = call.get<LstmAttributes>();
  const LstmOperands o = LstmOperands::of_forward(a);
  const LstmSteps s(call.in_shape(0), a);
  const Functions functions(a);
  const std::int64_t hidden = s.hidden;
  const T* const weights = given<T>(call, o.weights);
  const T* const peepholes = given<T>(call, o.peepholes);
  const auto* const lengths = given<std::int32_t>(call, o.lengths);
  if (refused<T>(call, s, lengths)) return;
  T* const last_hidden = call.out<T>(1);
  T* const last_cell = call.out<T>(2);
  for (std::int64_t n = 0; n < s.sequences; ++n) {
    T* const h = last_hidden + n * hidden;
    T* const c = last_cell + n * hidden;
    for (std::int64_t j = 0; j < hidden; ++j) {
      h[j] = o.hidden < 0 ? T(0) : given<T>(call, o.hidden)[n * hidden + j];
      c[j] = o.cell < 0 ? T(0) : given<T>(call, o.cell)[n * hidden + j];
    }
    for (std::int64_t k = 0; k < s.steps; ++k) {
      const std::int64_t row = s.row(n, s.step(k));
      const bool inside = s.step(k) < s.length(lengths, n);
      T* const y = call.out<T>(0) + row * hidden;
      for (std::size_t r = a.keeps ? 4 : 3; r < call.outputs.size(); ++r) {
        T* const found = call.out<T>(r) + row * hidden;
        std::copy_n(r == 4 ? h : c, hidden, found);
        if (!inside) std::fill_n(found, hidden, T(0));
      }
      T* const kept = a.keeps ? call.out<T>(3) + row * 4 * hidden : nullptr;
      if (!inside) {
        std::fill_n(y, hidden, T(0));
        if (kept != nullptr) std::fill_n(kept, 4 * hidden, T(0));
        continue;
      }
      for (std::int64_t j = 0; j < hidden; ++j) {
        double sums[4], values[4];
        const auto cell = static_cast<double>(c[j]);
        const auto peephole = [&](int which) {
          return peepholes == nullptr ? 0.0 : static_cast<double>(peepholes[which * hidden + j]);
        };
        for (int gate = 0; gate < 4; ++gate) {
          sums[gate] = static_cast<double>(call.in<T>(0)[row * 4 * hidden + gate * hidden + j]);
          const T* const from = weights + (gate * hidden + j) * hidden;
          for (std::int64_t i = 0; i < hidden; ++i) {
            sums[gate] += static_cast<double>(from[i]) * static_cast<double>(h[i]);
          }
        }
        if (peepholes != nullptr) {
          sums[kInput] += peephole(0) * cell;
          sums[kForget] += peephole(1) * cell;
        }
        for (int gate : {kInput, kForget, kCandidate}) {
          values[gate] = functions.value(gate, sums[gate]);
        }
        const double moved = values[kForget] * cell + values[kInput] * values[kCandidate];
        if (peepholes != nullptr) sums[kOutput] += peephole(2) * moved;
        values[kOutput] = functions.value(kOutput, sums[kOutput]);
        y[j] = static_cast<T>(values[kOutput] * functions.value(kCellResult, moved));
        c[j] = static_cast<T>(moved);
        for (int gate = 0; kept != nullptr && gate < 4; ++gate) {
          kept[gate * hidden + j] = static_cast<T>(functions.usual() ? values[gate] : sums[gate]);
        }
      }
      std::copy_n(y, hidden, h);
      if (a.keeps && a.has_peepholes) std::copy_n(c, hidden, call.out<T>(6) + row * hidden);
    }
  }
}

// Back through the steps: dh (T, H) and Uᵀ d gates of the step behind make dh of a step.
template <class T>
void lstm_gradient(const Call& call) {
  const auto& a = call.get<LstmAttributes>();
  const LstmOperands o = LstmOperands::of_gradient(a);
  const LstmSteps s(call.in_shape(static_cast<std::size_t>(o.gates)), a);
  const Functions functions(a);
  const std::int64_t hidden = s.hidden;
  const T* const weights = given<T>(call, o.weights);
  const T* const peepholes = given<T>(call, o.peepholes);
  const auto* const lengths = given<std::int32_t>(call, o.lengths);
  if (refused<T>(call, s, lengths)) return;
  for (std::int64_t n = 0; n < s.sequences; ++n) {
    T* const dh = call.out<T>(1) + n * hidden;
    T* const dc = call.out<T>(2) + n * hidden;
    for (std::int64_t j = 0; j < hidden; ++j) {
      dh[j] = o.hidden_gradient < 0 ? T(0) : given<T>(call, o.hidden_gradient)[n * hidden + j];
      dc[j] = o.cell_gradient < 0 ? T(0) : given<T>(call, o.cell_gradient)[n * hidden + j];
    }
    for (std::int64_t k = s.steps; k-- > 0;) {
      const std::int64_t row = s.row(n, s.step(k));
      T* const dgates = call.out<T>(0) + row * 4 * hidden;
      if (s.step(k) >= s.length(lengths, n)) {
        std::fill_n(dgates, 4 * hidden, T(0));
        continue;
      }
      for (std::int64_t j = 0; j < hidden; ++j) {
        double sums[4], values[4], slopes[4];
        for (int gate = 0; gate < 4; ++gate) {
          const auto kept =
              static_cast<double>(given<T>(call, o.gates)[row * 4 * hidden + gate * hidden + j]);
          sums[gate] = kept;
          values[gate] = functions.usual() ? kept : functions.value(gate, kept);
        }
        const auto cell = static_cast<double>(given<T>(call, o.found_cells)[row * hidden + j]);
        const double moved = values[kForget] * cell + values[kInput] * values[kCandidate];
        const double result = functions.value(kCellResult, moved);
        auto dy = static_cast<double>(dh[j]);
        if (o.all_gradient >= 0) {
          dy += static_cast<double>(given<T>(call, o.all_gradient)[row * hidden + j]);
        }
        const auto slope = [&](int gate, double gradient) {
          return functions.gradient(gate, sums[gate], values[gate], gradient);
        };
        slopes[kOutput] = slope(kOutput, dy * result);
        double dcell = static_cast<double>(dc[j]) +
                       functions.gradient(kCellResult, moved, result, dy * values[kOutput]);
        const auto peephole = [&](int which) {
          return static_cast<double>(peepholes[which * hidden + j]);
        };
        if (peepholes != nullptr) dcell += peephole(2) * slopes[kOutput];
        slopes[kInput] = slope(kInput, dcell * values[kCandidate]);
        slopes[kForget] = slope(kForget, dcell * cell);
        slopes[kCandidate] = slope(kCandidate, dcell * values[kInput]);
        dcell *= values[kForget];
        if (peepholes != nullptr) {
          dcell += peephole(0) * slopes[kInput] + peephole(1) * slopes[kForget];
        }
        dc[j] = static_cast<T>(dcell);
        for (int gate = 0; gate < 4; ++gate) {
          dgates[gate * hidden + j] = static_cast<T>(slopes[gate]);
        }
      }
      for (std::int64_t i = 0; i < hidden; ++i) {
        double sum = 0;
        for (std::int64_t j = 0; j < 4 * hidden; ++j) {
          sum += static_cast<double>(dgates[j]) * static_cast<double>(weights[j * hidden + i]);
        }
        dh[i] = static_cast<T>(sum);
      }
    }
  }
}

template void lstm<float>(const Call&);
template void lstm<double>(const Call&);
template void lstm_gradient<float>(const Call&);
template void lstm_gradient<double>(const Call&);

}  // namespace traingraph::reference
