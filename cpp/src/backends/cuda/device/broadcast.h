// Broadcast operands of elementwise kernels, read a pack of elements at a time. For .cu files only.
#pragma once

#include <vector>

#include <traingraph/types.h>
#include "backends/cuda/device/device.h"

namespace traingraph::cuda {

enum class Reading : std::uint8_t {
  dense,    // has the result's shape
  one,      // one element
  strided,  // through strides that are 0 along broadcast axes
};

// A pack that repeats one value.
template <int kElements, class T>
__device__ Pack<T, kElements> all(T value) {
  Pack<T, kElements> pack;
#pragma unroll
  for (int v = 0; v < kElements; ++v) pack.element[v] = value;
  return pack;
}

// Elements from `first` on of a dense operand, below `count`.
template <int kElements, class T>
__device__ Pack<T, kElements> load_dense(const T* source, std::int64_t first, std::int64_t count) {
  if (first + kElements <= count) return cuda::load<kElements>(source + first);
  Pack<T, kElements> pack = {};
#pragma unroll
  for (int v = 0; v < kElements; ++v) {
    if (first + v < count) pack.element[v] = source[first + v];
  }
  return pack;
}

template <class T, int kElements>
__device__ void store_dense(T* target, std::int64_t first, std::int64_t count,
                            const Pack<T, kElements>& pack) {
  if (first + kElements <= count) return cuda::store(target + first, pack);
#pragma unroll
  for (int v = 0; v < kElements; ++v) {
    if (first + v < count) target[first + v] = pack.element[v];
  }
}

template <int kOperands>
struct Broadcast {
  static constexpr int kAxes = 8;
  int rank = 0;
  bool whole_packs = false;  // a pack never crosses the end of the innermost axis
  Divider extents[kAxes];
  Reading reading[kOperands] = {};
  std::int32_t padding = 0;
  std::int64_t strides[kOperands][kAxes] = {};

  Broadcast() = default;
  Broadcast(const Shape& shape, const std::vector<Shape>& sources, int pack) {
    // The stride of operand i along each axis of the result.
    std::vector<std::vector<std::int64_t>> steps;
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const Shape& source = sources[i];
      std::vector<std::int64_t> step(shape.size(), 0);
      std::int64_t distance = 1;
      for (std::size_t k = source.size(); k-- > 0;) {
        if (source[k] != 1) step[k + shape.size() - source.size()] = distance;
        distance *= source[k];
      }
      const std::int64_t count = element_count(shape);
      reading[i] = distance == count ? Reading::dense
                   : distance == 1   ? Reading::one
                                     : Reading::strided;
      steps.push_back(std::move(step));
    }
    // Outermost first. An axis merges with the previous one if every operand is contiguous across
    // both.
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis] == 1) continue;
      bool joins = rank > 0;
      for (std::size_t i = 0; joins && i < steps.size(); ++i) {
        joins =
            reading[i] != Reading::strided || strides[i][rank - 1] == steps[i][axis] * shape[axis];
      }
      if (!joins) ++rank;
      const auto at = static_cast<std::size_t>(rank - 1);
      extents[at] = Divider(joins ? extents[at].divisor * shape[axis] : shape[axis]);
      for (std::size_t i = 0; i < steps.size(); ++i) strides[i][at] = steps[i][axis];
    }
    whole_packs = rank > 0 && extents[rank - 1].divisor % pack == 0;
  }

  __device__ std::int64_t offset(int operand, std::int64_t element) const {
    std::int64_t result = 0;
    for (int axis = rank - 1; axis >= 0; --axis) {
      result += extents[axis].split(element) * strides[operand][axis];
    }
    return result;
  }

  // Elements from `first` on of operand i in the result's shape, below `count`.
  template <int kElements, class T>
  __device__ Pack<T, kElements> load(const T* source, int i, std::int64_t first,
                                     std::int64_t count) const {
    if (reading[i] == Reading::one) return all<kElements>(source[0]);
    if (reading[i] == Reading::dense) return load_dense<kElements>(source, first, count);
    Pack<T, kElements> pack = {};
    if (whole_packs) {
      const std::int64_t start = offset(i, first);
      const std::int64_t step = strides[i][rank - 1];
#pragma unroll
      for (int v = 0; v < kElements; ++v) pack.element[v] = source[start + v * step];
      return pack;
    }
#pragma unroll
    for (int v = 0; v < kElements; ++v) {
      if (first + v < count) pack.element[v] = source[offset(i, first + v)];
    }
    return pack;
  }
  // Elements from `first` on of result r.
  template <class T, int kElements>
  __device__ void store(T* target, int, std::int64_t first, std::int64_t count,
                        const Pack<T, kElements>& pack) const {
    store_dense(target, first, count, pack);
  }
};

}  // namespace traingraph::cuda
