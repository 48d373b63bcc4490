// An interpreter for scalar lists as tasks. For .cu files only.
#pragma once

#include "backends/cuda/device/elementwise.h"
#include "backends/cuda/tasks/tasks.h"

// A thread has 32 bytes of elements of a large tensor, so that they share the cost of decoding an
// instruction.
namespace traingraph::cuda {

constexpr int kPrevious = -1;  // the register with the previous step's result

template <class T>
struct Step {
  ir::Scalar function;
  std::int16_t x, y;  // slots, or kPrevious
  std::int16_t to;    // a slot, or -1 where only the next step reads the result
  T p, q;
};

// A list prepared for the interpreter. Registers share a slot once the earlier one has no further
// reader.
template <class T, int kResults, int kSteps>
struct Program {
  int inputs, steps, results;
  std::int16_t result_slots[kResults];
  Step<T> code[kSteps];
};

// One function over a thread's elements.
template <class T, class Chunk>
__device__ void evaluate(const Step<T>& step, const Chunk& x, const Chunk& y, Chunk& r) {
  switch (step.function) {
#define TRAINGRAPH_SCALAR(name, arity, value_expression, gradient_x, gradient_y)       \
  case ir::Scalar::name:                                                               \
    _Pragma("unroll") for (int v = 0; v < Chunk::kElements; ++v) {                     \
      r.at(v) = ir::scalar::name<DeviceMath>::value(x.at(v), y.at(v), step.p, step.q); \
    }                                                                                  \
    break;
#include "ir/scalar.def"
#undef TRAINGRAPH_SCALAR
  }
}

// Chunk is a thread's share: Packs or Single. Inputs are loaded two at a time, so that the loads
// overlap.
template <class T, template <int> class Operands, class C, int kInputs, int kResults, int kSteps,
          int kSlots>
struct InterpretedListTasks
    : Arguments<T, Program<T, kResults, kSteps>, Operands<kInputs>, kInputs, kResults> {
  using Scratch = NoScratch;
  using Chunk = C;
  static constexpr int kMostInputs = kInputs, kMostResults = kResults, kMostSteps = kSteps,
                       kMostSlots = kSlots;

  __device__ void run(int task, Scratch&) const {
    constexpr int kGroup = 2;
    const auto& list = this->list;
    Chunk slots[kSlots];
#pragma unroll 1
    for (int i = 0; i < list.inputs; i += kGroup) {
      Chunk loaded[kGroup];
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        if (i + k >= list.inputs) continue;
        loaded[k] = Chunk::load(this->operands, this->inputs[i + k], i + k, this->count, task);
      }
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        if (i + k < list.inputs) slots[i + k] = loaded[k];
      }
    }
    Chunk previous = {};
#pragma unroll 1
    for (int k = 0; k < list.steps; ++k) {
      const Step<T>& step = list.code[k];
      const Chunk x = step.x == kPrevious ? previous : slots[step.x];
      const Chunk y = step.y == kPrevious ? previous : slots[step.y];
      evaluate(step, x, y, previous);
      if (step.to >= 0) slots[step.to] = previous;
    }
#pragma unroll 1
    for (int r = 0; r < list.results; ++r) {
      slots[list.result_slots[r]].store(this->operands, this->outputs[r], r, this->count, task);
    }
  }
};

// Short lists over small tensors whose operands need no strides.
template <class T>
using ShortListTasks = InterpretedListTasks<T, Flat, Single<T>, 8, 4, 16, 16>;

}  // namespace traingraph::cuda
