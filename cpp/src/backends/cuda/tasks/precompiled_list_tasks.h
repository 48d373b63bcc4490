// Precompiled scalar lists as tasks: every register of a list is a register of the thread. For .cu
// files only.
#pragma once

#include <iterator>
#include <type_traits>
#include <utility>

#include "backends/cuda/tasks/mixed_precision.h"
#include "backends/cuda/tasks/tasks.h"
#include "ir/precompiled_lists.h"

namespace traingraph::cuda {

// Lists of one function that are more frequent here than on a CPU.
struct Relu {
  static constexpr char kinds[] = "v";
  static constexpr ir::PrecompiledStep steps[] = {{ir::Scalar::relu, 0}};
  static constexpr int results[] = {1};
};
struct ReluGradient {
  static constexpr char kinds[] = "vv";
  static constexpr ir::PrecompiledStep steps[] = {{ir::Scalar::relu_gradient, 0, 1}};
  static constexpr int results[] = {2};
};
struct Add {
  static constexpr char kinds[] = "vv";
  static constexpr ir::PrecompiledStep steps[] = {{ir::Scalar::add, 0, 1}};
  static constexpr int results[] = {2};
};

// These lists and those of ir/precompiled_lists.h.
using Lists = decltype(ir::Lists<Relu, ReluGradient, Add>() + ir::PrecompiledLists());

template <class List>
constexpr int kInputsOf = static_cast<int>(sizeof(List::kinds)) - 1;
template <class List>
constexpr int kStepsOf = static_cast<int>(std::size(List::steps));
template <class List>
constexpr int kResultsOf = static_cast<int>(std::size(List::results));

// A list's constants p and q, by step.
template <class T, int kSteps>
struct Immediates {
  T p[kSteps], q[kSteps];
};

// Calls f with the numbers below kCount as compile-time constants, because a list's fields are
// known only to the compiler.
template <int kCount, class F>
__device__ void each(F f) {
  [&]<int... i>(std::integer_sequence<int, i...>) {
    (f(std::integral_constant<int, i>()), ...);
  }(std::make_integer_sequence<int, kCount>());
}

// Executes the list. `registers` has the inputs first and one chunk per step after them.
template <class List, class T, class Chunk>
__device__ void run_steps(const Immediates<T, kStepsOf<List>>& list, Chunk* registers) {
  each<kStepsOf<List>>([&](auto k) {
    constexpr ir::PrecompiledStep s = List::steps[k];
    constexpr int x = s.x < 0 ? 0 : s.x, y = s.y < 0 ? 0 : s.y;
#pragma unroll
    for (int v = 0; v < Chunk::kElements; ++v) {
      registers[kInputsOf<List> + k].at(v) = ir::scalar::evaluate<DeviceMath>(
          s.function, registers[x].at(v), registers[y].at(v), list.p[k], list.q[k]);
    }
  });
}

// Chunk is a thread's share: Packs or Single.
template <class T, class L, template <int> class Operands, class C>
struct PrecompiledListTasks : Arguments<T, Immediates<T, kStepsOf<L>>, Operands<kInputsOf<L>>,
                                        kInputsOf<L>, kResultsOf<L>> {
  using Scratch = NoScratch;
  using Chunk = C;
  static constexpr int kInputs = kInputsOf<L>;

  __device__ void run(int task, Scratch&) const {
    Chunk registers[kInputs + kStepsOf<L>];
#pragma unroll
    for (int i = 0; i < kInputs; ++i) {
      registers[i] = Chunk::load(this->operands, this->inputs[i], i, this->count, task);
    }
    run_steps<L>(this->list, registers);
    each<kResultsOf<L>>([&](auto r) {
      constexpr int at = L::results[r];
      registers[at].store(this->operands, this->outputs[r], r, this->count, task);
    });
  }
};

// For small tensors, and for large ones without and with strided operands.
template <class L>
using SmallListTasks = PrecompiledListTasks<float, L, Flat, Single<float>>;
template <class L>
using FlatListTasks = PrecompiledListTasks<float, L, Flat, Packs<float>>;
template <class L>
using SmallMixedListTasks = PrecompiledListTasks<float, L, MixedFlat, Single<float>>;
template <class L>
using MixedListTasks =
    PrecompiledListTasks<float, L, MixedFlat, Packs<float, 8>>;  // 16 bytes of 16-bit elements
template <class L>
using StridedListTasks = PrecompiledListTasks<float, L, Broadcast, Packs<float>>;

}  // namespace traingraph::cuda
