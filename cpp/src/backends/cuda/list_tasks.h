#pragma once

#include <iterator>
#include <type_traits>
#include <utility>

#include "backends/cuda/mixed.h"
#include "backends/cuda/tasks.h"
#include "ir/frequent_lists.h"

// The lists that are compiled in, one kind of tasks each: every register of a list is one of the
// thread's. For .cu files only.
namespace traingraph::cuda {

// What stands alone more often here than on a CPU.
struct Relu {
  static constexpr char kinds[] = "v";
  static constexpr ir::FrequentStep steps[] = {{ir::Scalar::relu, 0}};
  static constexpr int results[] = {1};
};
struct ReluGradient {
  static constexpr char kinds[] = "vv";
  static constexpr ir::FrequentStep steps[] = {{ir::Scalar::relu_gradient, 0, 1}};
  static constexpr int results[] = {2};
};
struct Add {
  static constexpr char kinds[] = "vv";
  static constexpr ir::FrequentStep steps[] = {{ir::Scalar::add, 0, 1}};
  static constexpr int results[] = {2};
};

// Those and the lists of ir/frequent_lists.h.
// clang-format off
#define TRAINGRAPH_CUDA_LISTS(X) \
  X(Relu) \
  X(ReluGradient) \
  X(Add) \
  TRAINGRAPH_FREQUENT_LISTS(X)
// clang-format on

namespace lists {
using cuda::Add;
using cuda::Relu;
using cuda::ReluGradient;
#define TRAINGRAPH_LIST(name) using ir::frequent::name;
TRAINGRAPH_FREQUENT_LISTS(TRAINGRAPH_LIST)
#undef TRAINGRAPH_LIST
}  // namespace lists

template <class List>
constexpr int kInputsOf = static_cast<int>(sizeof(List::kinds)) - 1;
template <class List>
constexpr int kStepsOf = static_cast<int>(std::size(List::steps));
template <class List>
constexpr int kResultsOf = static_cast<int>(std::size(List::results));

// A list's numbers p and q, step by step.
template <class T, int kSteps>
struct Immediates {
  T p[kSteps], q[kSteps];
};

// Calls f with the numbers below kCount as constants: a list's fields are known to the compiler
// only.
template <int kCount, class F>
__device__ void each(F f) {
  [&]<int... i>(std::integer_sequence<int, i...>) {
    (f(std::integral_constant<int, i>()), ...);
  }(std::make_integer_sequence<int, kCount>());
}

// Computes what stands in registers behind the list's inputs, a chunk each.
template <class List, class T, class Chunk>
__device__ void run_steps(const Immediates<T, kStepsOf<List>>& list, Chunk* registers) {
  each<kStepsOf<List>>([&](auto k) {
    constexpr ir::FrequentStep s = List::steps[k];
    constexpr int x = s.x < 0 ? 0 : s.x, y = s.y < 0 ? 0 : s.y;
#pragma unroll
    for (int v = 0; v < Chunk::kElements; ++v) {
      registers[kInputsOf<List> + k].at(v) = ir::scalar::evaluate<DeviceMath>(
          s.function, registers[x].at(v), registers[y].at(v), list.p[k], list.q[k]);
    }
  });
}

// Chunk is what a thread takes: Packs or Single.
template <class T, class L, template <int> class Operands, class C>
struct ListTasks : Arguments<T, Immediates<T, kStepsOf<L>>, Operands<kInputsOf<L>>, kInputsOf<L>,
                             kResultsOf<L>> {
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
      registers[L::results[r]].store(this->operands, this->outputs[r], r, this->count, task);
    });
  }
};

// Over small tensors, and over large ones whose operands need no strides or do.
template <class L>
using SmallListTasks = ListTasks<float, L, Flat, Single<float>>;
template <class L>
using FlatListTasks = ListTasks<float, L, Flat, Packs<float>>;
template <class L>
using SmallMixedListTasks = ListTasks<float, L, MixedFlat, Single<float>>;
template <class L>
using MixedListTasks = ListTasks<float, L, MixedFlat, Packs<float, 8>>;  // 16 bytes of 16 bits
template <class L>
using StridedListTasks = ListTasks<float, L, Broadcast, Packs<float>>;

}  // namespace traingraph::cuda
