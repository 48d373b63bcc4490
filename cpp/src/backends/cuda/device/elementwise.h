// Operands and per-thread chunks of elementwise kernels, precompiled and interpreted. For .cu files
// only.
#pragma once

#include "backends/cuda/device/broadcast.h"

namespace traingraph::cuda {

// Operands with the result's shape or a single element.
template <int kOperands>
struct Flat {
  bool one[kOperands];

  template <int kElements, class T>
  __device__ Pack<T, kElements> load(const T* source, int i, std::int64_t first,
                                     std::int64_t count) const {
    return one[i] ? all<kElements>(source[0]) : load_dense<kElements>(source, first, count);
  }
  template <class T>
  __device__ T element(const T* source, int i, int at) const {
    return source[one[i] ? 0 : at];
  }
  template <class T>
  __device__ void put(T* target, int, int at, T value) const {
    target[at] = value;
  }
  template <class T, int kElements>
  __device__ void store(T* target, int, std::int64_t first, std::int64_t count,
                        const Pack<T, kElements>& pack) const {
    store_dense(target, first, count, pack);
  }
};

// Converts the first operands to `Flat`; false if one is broadcast in another way.
template <int kFrom, int kOperands>
bool flattened(const Broadcast<kFrom>& from, std::size_t operands, Flat<kOperands>& to) {
  for (std::size_t i = 0; i < operands; ++i) {
    if (from.reading[i] == Reading::strided) return false;
    to.one[i] = from.reading[i] == Reading::one;
  }
  return true;
}

// Arguments of every elementwise kernel. Operands is Broadcast, Flat, or a mixed-precision form of
// them (mixed_precision.h).
template <class T, class List, class Operands, int kInputs, int kResults>
struct Arguments {
  std::int64_t count;
  const T* inputs[kInputs];
  T* outputs[kResults];
  List list;
  Operands operands;
};

// A thread's elements of a large tensor: two packs, so that enough bytes are in flight.
// Neighbouring threads take neighbouring packs.
template <class T, int kPack = Pack<T>::kElements>
struct Packs {
  static constexpr int kPacks = 2, kElements = kPacks * kPack;
  Pack<T, kPack> pack[kPacks];

  __device__ T& at(int v) { return pack[v / kPack].element[v % kPack]; }
  __device__ T at(int v) const { return pack[v / kPack].element[v % kPack]; }
  __device__ static std::int64_t first(int task, int k) {
    return ((std::int64_t{task} * kPacks + k) * kThreads + threadIdx.x) * kPack;
  }
  // This thread's part of operand i in a task.
  template <class Operands>
  __device__ static Packs load(const Operands& operands, const T* source, int i, std::int64_t count,
                               int task) {
    Packs packs = {};
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const std::int64_t at = first(task, k);
      if (at < count) {
        packs.pack[k] = operands.template load<kPack>(source, i, at, count);
      }
    }
    return packs;
  }
  // The same part of result r.
  template <class Operands>
  __device__ void store(const Operands& operands, T* target, int r, std::int64_t count,
                        int task) const {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      const std::int64_t at = first(task, k);
      if (at < count) operands.store(target, r, at, count, pack[k]);
    }
  }
};

// A thread's share of a small tensor: a single element. Loading the code dominates there, so the
// code is kept short.
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
    return {at < count ? operands.element(source, i, at) : T(0)};
  }
  template <class Operands>
  __device__ void store(const Operands& operands, T* target, int r, std::int64_t count,
                        int task) const {
    const int at = first(task);
    if (at < count) operands.put(target, r, at, value);
  }
};

constexpr std::int64_t kMostSmallElements = std::int64_t{1} << 17;

template <class Chunk>
unsigned tasks_of(std::int64_t count) {
  return blocks_for(count, kThreads * Chunk::kElements);
}

}  // namespace traingraph::cuda
