#pragma once

#include <iterator>
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

// Chunk is what a thread takes: Packs or Single.
template <class T, class L, template <int> class Operands, class C>
struct ListTasks : Arguments<T, Immediates<T, kStepsOf<L>>, Operands<kInputsOf<L>>, kInputsOf<L>,
                             kResultsOf<L>> {
  using Scratch = NoScratch;
  using Chunk = C;
  static constexpr int kInputs = kInputsOf<L>;

  // Computes register kInputs + k.
  template <int k>
  __device__ void step(Chunk* registers) const {
    constexpr ir::FrequentStep s = L::steps[k];
    constexpr int x = s.x < 0 ? 0 : s.x, y = s.y < 0 ? 0 : s.y;
#pragma unroll
    for (int v = 0; v < Chunk::kElements; ++v) {
      registers[kInputs + k].at(v) = ir::scalar::evaluate<DeviceMath>(
          s.function, registers[x].at(v), registers[y].at(v), this->list.p[k], this->list.q[k]);
    }
  }

  template <int r>
  __device__ void put(const Chunk* registers, int task) const {
    constexpr int from = L::results[r];
    registers[from].store(this->operands, this->outputs[r], r, this->count, task);
  }

  __device__ void run(int task, Scratch&) const {
    Chunk registers[kInputs + kStepsOf<L>];
#pragma unroll
    for (int i = 0; i < kInputs; ++i) {
      registers[i] = Chunk::load(this->operands, this->inputs[i], i, this->count, task);
    }
    [&]<std::size_t... k>(std::index_sequence<k...>) {
      (step<static_cast<int>(k)>(registers), ...);
    }(std::make_index_sequence<kStepsOf<L>>());
    [&]<std::size_t... r>(std::index_sequence<r...>) {
      (put<static_cast<int>(r)>(registers, task), ...);
    }(std::make_index_sequence<kResultsOf<L>>());
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
