// Functions of an LSTM's gates and cells, and their derivatives. For .cu files only.
#pragma once

#include <algorithm>
#include <vector>

#include "backends/cuda/device/device.h"
#include "ir/attributes.h"

namespace traingraph::cuda {

enum LstmGate { kInput, kForget, kCandidate, kOutput, kCellResult, kFunctions };

// An interpreter for a scalar list of few instructions.
template <class T>
struct SmallList {
  static constexpr int kMostSteps = 10;
  int inputs, steps, result;
  ir::Scalar functions[kMostSteps];
  std::int8_t x[kMostSteps], y[kMostSteps];
  T p[kMostSteps], q[kMostSteps];

  static bool fits(const ir::ScalarList& list) { return list.code.size() <= kMostSteps; }

  explicit SmallList(const ir::ScalarList& list)
      : inputs(list.inputs), steps(static_cast<int>(list.code.size())), result(list.results[0]) {
    for (int k = 0; k < steps; ++k) {
      const ir::Instruction& step = list.code[static_cast<std::size_t>(k)];
      functions[k] = step.function;
      x[k] = static_cast<std::int8_t>(step.x);
      y[k] = static_cast<std::int8_t>(step.y);
      p[k] = static_cast<T>(step.p);
      q[k] = static_cast<T>(step.q);
    }
  }
  SmallList() = default;

  // The list has the first `inputs` of these numbers.
  __device__ __noinline__ T run(T first, T second, T third) const {
    T registers[3 + kMostSteps] = {first, second, third};
#pragma unroll 1
    for (int k = 0; k < steps; ++k) {
      registers[inputs + k] =
          ir::scalar::evaluate<DeviceMath, T>(functions[k], x[k] >= 0 ? registers[x[k]] : T(0),
                                              y[k] >= 0 ? registers[y[k]] : T(0), p[k], q[k]);
    }
    return registers[result];
  }
};

// Sigmoid and tanh, the default. Their derivatives need only the gates' values.
template <class T>
struct UsualFunctions {
  static constexpr bool kUsual = true;

  explicit UsualFunctions(const ir::LstmAttributes&) {}
  static bool fits(const ir::LstmAttributes& a) { return a.activations.empty(); }

  __device__ T value(int k, T x) const {
    return k == kCandidate || k == kCellResult
               ? DeviceMath::tanh(x)
               : ir::scalar::sigmoid<DeviceMath>::value(x, T(0), T(0), T(0));
  }
  __device__ T gradient(int k, T, T y, T dy) const {
    return k == kCandidate || k == kCellResult
               ? ir::scalar::tanh_gradient<DeviceMath>::value(dy, y, T(1), T(1))
               : ir::scalar::sigmoid_gradient<DeviceMath>::value(dy, y, T(0), T(0));
  }
};

template <class T>
struct AnyFunctions {
  static constexpr bool kUsual = false;
  SmallList<T> values[kFunctions], gradients[kFunctions];

  explicit AnyFunctions(const ir::LstmAttributes& a) {
    for (std::size_t k = 0; k < kFunctions; ++k) {
      values[k] = SmallList<T>(a.activations[k]);
      if (!a.derivatives.empty()) gradients[k] = SmallList<T>(a.derivatives[k]);
    }
  }
  static bool fits(const ir::LstmAttributes& a) {
    const auto all = [](const std::vector<ir::ScalarList>& lists) {
      return std::all_of(lists.begin(), lists.end(), SmallList<T>::fits);
    };
    return all(a.activations) && all(a.derivatives);
  }

  __device__ T value(int k, T x) const { return values[k].run(x, T(0), T(0)); }
  __device__ T gradient(int k, T x, T y, T dy) const { return gradients[k].run(x, y, dy); }
};

}  // namespace traingraph::cuda
