// Rows along one axis of a dense tensor, for a thread, a warp or a block each. For .cu files only.
#pragma once

#include <type_traits>

#include <traingraph/types.h>
#include "backends/cuda/device/device.h"

namespace traingraph::cuda {

// A thread's share of a row: elements lane, lane + lanes, … Element k of row (o, i) is at
// first + k * inner.
struct Row {
  bool there;
  int lane;
  std::int64_t number, first;
};

struct Rows {
  std::int64_t outer = 1, extent = 1, inner = 1;
  Divider by_inner;

  Rows(const Shape& shape, int axis) : extent(shape[static_cast<std::size_t>(axis)]) {
    for (std::size_t k = 0; k < shape.size(); ++k) {
      if (k < static_cast<std::size_t>(axis)) outer *= shape[k];
      if (k > static_cast<std::size_t>(axis)) inner *= shape[k];
    }
    by_inner = Divider(inner);
  }
  std::int64_t count() const { return outer * inner; }
  // Threads per row: one if neighbouring rows are contiguous, otherwise by the extent.
  int lanes() const {
    if (inner >= 16 || extent <= 4) return 1;
    return extent <= 256 || count() >= 4096 ? 32 : kThreads;
  }
  // Rows are numbered (o, i).
  template <int kLanes>
  __device__ Row mine(int task) const {
    const std::int64_t number = (std::int64_t{task} * kThreads + threadIdx.x) / kLanes;
    std::int64_t o = number;
    const std::int64_t i = by_inner.split(o);
    return {number < outer * inner, static_cast<int>(threadIdx.x) % kLanes, number,
            o * extent * inner + i};
  }
};

// A warp's rows are short, and short code is loaded faster.
template <int kLanes>
constexpr int kUnrolled = kLanes == 32 ? 1 : 4;

// A row's largest element, and the sum of e^(x - largest).
template <class T>
struct Exponentials {
  T largest;
  T sum;
};

template <int kLanes, class T>
__device__ T largest_of(const Rows& rows, const Row& row, const T* x) {
  T largest = -infinity<T>();
#pragma unroll(kUnrolled<kLanes>)
  for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
    largest = Largest()(largest, x[row.first + k * rows.inner]);
  }
  return combine<kLanes>(largest, Largest());
}

template <int kLanes, class T>
__device__ Exponentials<T> exponentials(const Rows& rows, const Row& row, const T* x) {
  const T largest = largest_of<kLanes>(rows, row, x);
  double sum = 0;
#pragma unroll(kUnrolled<kLanes>)
  for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
    sum += static_cast<double>(::exp(x[row.first + k * rows.inner] - largest));
  }
  return {largest, static_cast<T>(combine<kLanes>(sum, Sum()))};
}

// Calls f with the number of lanes as a constant.
template <class F>
void with_lanes(int lanes, F&& f) {
  if (lanes == 1) {
    f(std::integral_constant<int, 1>());
  } else if (lanes == 32) {
    f(std::integral_constant<int, 32>());
  } else {
    f(std::integral_constant<int, kThreads>());
  }
}

}  // namespace traingraph::cuda
