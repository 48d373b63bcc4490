// Operands and single steps of an LSTM and of its gradient, for the kernels of one step and of all.
// For .cu files only.
#pragma once

#include "backends/cuda/products/lstm_functions.h"

namespace traingraph::cuda {

// N sequences of T steps of H units.
struct Steps {
  std::int64_t sequences, steps, hidden;
  bool time_first, reverse;
  const std::int32_t* lengths;  // or null
  const int* refused;           // set if the lengths are invalid

  __device__ std::int64_t step(std::int64_t k) const { return reverse ? steps - 1 - k : k; }
  __device__ std::int64_t row(std::int64_t sequence, std::int64_t k) const {
    return time_first ? step(k) * sequences + sequence : sequence * steps + step(k);
  }
  __device__ bool senseless() const { return lengths != nullptr && *refused != 0; }
  // Whether the sequence has a k-th step.
  __device__ bool reaches(std::int64_t sequence, std::int64_t k) const {
    return lengths == nullptr || senseless() || step(k) < lengths[sequence];
  }
};

template <class T>
struct Forward {
  const T* inputs;     // (N, T, 4H)
  const T* weights;    // (4H, H)
  const T* peepholes;  // or null
  const T* cell_from;  // null: zeros
  T* cell;
  T* result;
  T *gates, *found_hidden, *found_cells;  // null: not kept
  T* moved_cells;                         // null without peepholes
};

// The k-th step of a unit.
template <class T>
struct LstmStep {
  T found, found_cell;  // h and c before it
  T state, cell;        // and after it
  T gates[4];           // as they are kept
  bool is_inside;

  // From c in `cell`, h `before` and the products h uᵀ of the gates in `gates`.
  template <class F>
  __device__ void run(const Steps& s, const Forward<T>& f, const F& functions,
                      std::int64_t sequence, std::int64_t unit, std::int64_t k,
                      const T (&inputs)[4], T before) {
    found = state = before;
    found_cell = cell;
    is_inside = s.reaches(sequence, k);
    if (!is_inside) return;
    T values[4];
#pragma unroll
    for (int gate = 0; gate < 4; ++gate) gates[gate] += inputs[gate];
    if (s.senseless()) cell = T(0) / T(0);
    if (f.peepholes != nullptr) {
      gates[kInput] += f.peepholes[unit] * cell;
      gates[kForget] += f.peepholes[s.hidden + unit] * cell;
    }
    values[kInput] = functions.value(kInput, gates[kInput]);
    values[kForget] = functions.value(kForget, gates[kForget]);
    values[kCandidate] = functions.value(kCandidate, gates[kCandidate]);
    cell = values[kForget] * cell + values[kInput] * values[kCandidate];
    if (f.peepholes != nullptr) gates[kOutput] += f.peepholes[2 * s.hidden + unit] * cell;
    values[kOutput] = functions.value(kOutput, gates[kOutput]);
    state = values[kOutput] * functions.value(kCellResult, cell);
    if (s.senseless()) state = T(0) / T(0);
#pragma unroll
    for (int gate = 0; gate < 4; ++gate) {
      if constexpr (F::kUsual) gates[gate] = values[gate];
    }
  }

  __device__ void store(const Steps& s, const Forward<T>& f, std::int64_t sequence,
                        std::int64_t unit, std::int64_t k) const {
    const std::int64_t row = s.row(sequence, k), at = row * s.hidden + unit;
    f.result[at] = is_inside ? state : T(0);
    if (f.moved_cells != nullptr) f.moved_cells[at] = is_inside ? cell : T(0);
    if (f.gates == nullptr) return;
    f.found_hidden[at] = is_inside ? found : T(0);
    f.found_cells[at] = is_inside ? found_cell : T(0);
#pragma unroll
    for (int gate = 0; gate < 4; ++gate) {
      f.gates[(row * 4 + gate) * s.hidden + unit] = is_inside ? gates[gate] : T(0);
    }
  }
};

template <class T>
struct Backward {
  const T* weights;          // (4H, H)
  const T* peepholes;        // or null
  const T* result_gradient;  // these three null: no gradient
  const T* hidden_gradient;
  const T* last_cell_gradient;
  const T* gates;
  const T* found_cells;
  T* gates_gradient;
  T* states;  // dh of sequences that end before a step; finally of all
  T* cell_gradient;
};

// What the gradient of a step reads of a unit.
template <class T>
struct Kept {
  T gates[4], found_cell, result_gradient;

  __device__ void load(const Steps& s, const Backward<T>& b, std::int64_t sequence,
                       std::int64_t unit, std::int64_t k) {
    const std::int64_t row = s.row(sequence, k), at = row * s.hidden + unit;
#pragma unroll
    for (int gate = 0; gate < 4; ++gate) gates[gate] = b.gates[at + (row * 3 + gate) * s.hidden];
    found_cell = b.found_cells[at];
    result_gradient = b.result_gradient != nullptr ? b.result_gradient[at] : T(0);
  }
};

// The gradient of the k-th step of a unit: dh → the gradients of the gates. Updates dc.
template <class T, class F>
__device__ void step_back(const Steps& s, const Backward<T>& b, const F& functions,
                          std::int64_t sequence, std::int64_t unit, std::int64_t k,
                          const Kept<T>& kept, T dh, T& dc, T (&gradients)[4]) {
  const std::int64_t hidden = s.hidden;
  if (!s.reaches(sequence, k)) {
#pragma unroll
    for (int gate = 0; gate < 4; ++gate) gradients[gate] = T(0);
    return;
  }
  T sums[4], values[4];
#pragma unroll
  for (int gate = 0; gate < 4; ++gate) {
    sums[gate] = kept.gates[gate];
    values[gate] = F::kUsual ? sums[gate] : functions.value(gate, sums[gate]);
  }
  const T found = kept.found_cell;
  const T cell = values[kForget] * found + values[kInput] * values[kCandidate];
  const T result = functions.value(kCellResult, cell);
  T dy = dh + kept.result_gradient;
  if (s.senseless()) dy = T(0) / T(0);
  const T output = functions.gradient(kOutput, sums[kOutput], values[kOutput], dy * result);
  dc += functions.gradient(kCellResult, cell, result, dy * values[kOutput]);
  if (b.peepholes != nullptr) dc += b.peepholes[2 * hidden + unit] * output;
  const T input = functions.gradient(kInput, sums[kInput], values[kInput], dc * values[kCandidate]);
  const T forget = functions.gradient(kForget, sums[kForget], values[kForget], dc * found);
  gradients[kInput] = input;
  gradients[kForget] = forget;
  gradients[kCandidate] =
      functions.gradient(kCandidate, sums[kCandidate], values[kCandidate], dc * values[kInput]);
  gradients[kOutput] = output;
  dc *= values[kForget];
  if (b.peepholes != nullptr) {
    dc += b.peepholes[unit] * input + b.peepholes[hidden + unit] * forget;
  }
}

template <class T>
__device__ void store_gradients(const Steps& s, const Backward<T>& b, std::int64_t sequence,
                                std::int64_t unit, std::int64_t k, const T (&gradients)[4]) {
  const std::int64_t row = s.row(sequence, k);
#pragma unroll
  for (int gate = 0; gate < 4; ++gate) {
    b.gates_gradient[(row * 4 + gate) * s.hidden + unit] = gradients[gate];
  }
}

}  // namespace traingraph::cuda
