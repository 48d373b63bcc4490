#pragma once

#include "backends/cuda/broadcast.h"

// What kernels of scalar lists share, interpreted or compiled in. For .cu files only.
namespace traingraph::cuda {

// Operands that have the result's shape or one element.
template <int kOperands>
struct Flat {
  bool one[kOperands];

  template <class T>
  __device__ Pack<T> load(const T* source, int i, std::int64_t first, std::int64_t count) const {
    return one[i] ? all(source[0]) : load_dense(source, first, count);
  }
};

// The first operands as `Flat`; false where one is stretched otherwise.
template <int kFrom, int kOperands>
bool flattened(const Broadcast<kFrom>& from, std::size_t operands, Flat<kOperands>& to) {
  for (std::size_t i = 0; i < operands; ++i) {
    if (from.reading[i] == Reading::strided) return false;
    to.one[i] = from.reading[i] == Reading::one;
  }
  return true;
}

// What every kernel of a list is given. Operands is Broadcast or Flat.
template <class T, class List, class Operands, int kInputs, int kResults>
struct Arguments {
  std::int64_t count;
  const T* inputs[kInputs];
  T* outputs[kResults];
  List list;
  Operands operands;
};

// A thread's elements of a large tensor: two packs, so that enough bytes are on their way.
// Neighbouring threads take neighbouring packs.
template <class T>
struct Packs {
  static constexpr int kPacks = 2, kElements = kPacks * Pack<T>::kElements;
  Pack<T> pack[kPacks];

  __device__ T& at(int v) { return pack[v / Pack<T>::kElements].element[v % Pack<T>::kElements]; }
  __device__ T at(int v) const {
    return pack[v / Pack<T>::kElements].element[v % Pack<T>::kElements];
  }
  __device__ static std::int64_t first(int task, int k) {
    return ((std::int64_t{task} * kPacks + k) * kThreads + threadIdx.x) * Pack<T>::kElements;
  }
  // The part of operand i that belongs to this thread of a task.
  template <class Operands>
  __device__ static Packs load(const Operands& operands, const T* source, int i, std::int64_t count,
                               int task) {
    Packs packs = {};
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const std::int64_t at = first(task, k);
      if (at < count) packs.pack[k] = operands.load(source, i, at, count);
    }
    return packs;
  }
  __device__ void store(T* target, std::int64_t count, int task) const {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const std::int64_t at = first(task, k);
      if (at < count) cuda::store(target, at, count, pack[k]);
    }
  }
};

// Of a small one: a single element. What takes time there is the code itself, which is read when it
// first runs, so it is kept short.
template <class T>
struct Single {
  static constexpr int kElements = 1;
  T value;

  __device__ T& at(int) { return value; }
  __device__ T at(int) const { return value; }
  __device__ static int first(int task) { return task * kThreads + static_cast<int>(threadIdx.x); }
  template <class Operands>
  __device__ static Single load(const Operands& operands, const T* source, int i,
                                std::int64_t count, int task) {
    const int at = first(task);
    return {at < count ? source[operands.one[i] ? 0 : at] : T(0)};
  }
  __device__ void store(T* target, std::int64_t count, int task) const {
    const int at = first(task);
    if (at < count) target[at] = value;
  }
};

constexpr std::int64_t kMostSmallElements = std::int64_t{1} << 17;

template <class Chunk>
unsigned tasks_of(std::int64_t count) {
  return blocks_for(count, kThreads * Chunk::kElements);
}

}  // namespace traingraph::cuda
