#pragma once

#include "backends/cuda/broadcast.h"

// What kernels of scalar lists share, interpreted or compiled in. For .cu files only.
namespace traingraph::cuda {

// Operands that have the result's shape or one element.
template <int kOperands>
struct Flat {
  bool one[kOperands];

  template <int kElements, class T>
  __device__ Pack<T, kElements> load(const T* source, int i, std::int64_t first,
                                     std::int64_t count) const {
    return one[i] ? all<kElements>(source[0]) : load_dense<kElements>(source, first, count);
  }
  template <class T, int kElements>
  __device__ void store(T* target, int, std::int64_t first, std::int64_t count,
                        const Pack<T, kElements>& pack) const {
    store_dense(target, first, count, pack);
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

// What every kernel of a list is given. Operands is Broadcast, Flat, or one of them with mixed
// element types (mixed.h).
template <class T, class List, class Operands, int kInputs, int kResults>
struct Arguments {
  std::int64_t count;
  const T* inputs[kInputs];
  T* outputs[kResults];
  List list;
  Operands operands;
};

// A thread's elements: two packs, so that enough bytes are on their way.
constexpr int kPacks = 2;

template <class T>
struct Packs {
  Pack<T> at[kPacks];
};

// Where pack k of this thread begins: neighbouring threads take neighbouring packs.
template <class T>
__device__ std::int64_t first_of(int task, int k) {
  const std::int64_t pack = (std::int64_t{task} * kPacks + k) * kThreads + threadIdx.x;
  return pack * Pack<T>::kElements;
}

template <class T, class Operands>
__device__ Packs<T> load(const Operands& operands, const T* source, int i, std::int64_t count,
                         int task) {
  Packs<T> packs = {};
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const std::int64_t first = first_of<T>(task, k);
    if (first < count) {
      packs.at[k] = operands.template load<Pack<T>::kElements>(source, i, first, count);
    }
  }
  return packs;
}

template <class T, class Operands>
__device__ void store_all(const Operands& operands, T* target, int r, std::int64_t count,
                          const Packs<T>& packs, int task) {
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const std::int64_t first = first_of<T>(task, k);
    if (first < count) operands.store(target, r, first, count, packs.at[k]);
  }
}

template <class T>
unsigned tasks_of(std::int64_t count) {
  return blocks_for(count, kThreads * kPacks * Pack<T>::kElements);
}

}  // namespace traingraph::cuda
