#pragma once

#include "backends/cuda/broadcast.h"

// What kernels of scalar lists share, interpreted or compiled in. For .cu files only.
namespace traingraph::cuda {

// What every kernel of a list is given.
template <class T, class L, int kInputs, int kResults>
struct Arguments {
  std::int64_t count;
  const T* inputs[kInputs];
  T* outputs[kResults];
  L list;
  Broadcast<kInputs> broadcast;
};

// A thread's elements: two packs, so that enough bytes are on their way.
constexpr int kPacks = 2;

template <class T>
struct Packs {
  Pack<T> at[kPacks];
};

// Where pack k of this thread begins: neighbouring threads take neighbouring packs.
template <class T>
__device__ std::int64_t first_of(int k) {
  const std::int64_t pack =
      (static_cast<std::int64_t>(blockIdx.x) * kPacks + k) * kThreads + threadIdx.x;
  return pack * Pack<T>::kElements;
}

template <class T, int kInputs>
__device__ Packs<T> load(const Broadcast<kInputs>& broadcast, const T* source, int i,
                         std::int64_t count) {
  Packs<T> packs = {};
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const std::int64_t first = first_of<T>(k);
    if (first < count) packs.at[k] = broadcast.load(source, i, first, count);
  }
  return packs;
}

template <class T>
__device__ void store_all(T* target, std::int64_t count, const Packs<T>& packs) {
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    const std::int64_t first = first_of<T>(k);
    if (first < count) store(target, first, count, packs.at[k]);
  }
}

template <class T>
unsigned blocks_of(std::int64_t count) {
  return blocks_for(count, kThreads * kPacks * Pack<T>::kElements);
}

}  // namespace traingraph::cuda
