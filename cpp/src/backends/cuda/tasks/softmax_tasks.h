// Softmax, log-softmax and their gradients as tasks: one thread, warp or block per row. For .cu
// files only.
#pragma once

#include "backends/cuda/tasks/rows.h"
#include "backends/cuda/tasks/tasks.h"

namespace traingraph::cuda {

// x → y, of the rows' shape. The maximum is subtracted first.
template <class T, int kLanes>
struct SoftmaxTasks {
  using Scratch = NoScratch;
  Rows rows;
  bool logarithm;
  const T* x;
  T* y;

  __device__ void run(int task, Scratch&) const {
    const Row row = rows.mine<kLanes>(task);
    if (!row.there) return;
    const Exponentials<T> e = exponentials<kLanes>(rows, row, x);
    const T log_total = ::log(e.sum);
#pragma unroll(kUnrolled<kLanes>)
    for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
      const std::int64_t at = row.first + k * rows.inner;
      const T shifted = x[at] - e.largest;
      y[at] = logarithm ? shifted - log_total : ::exp(shifted) / e.sum;
    }
  }
};

// dy, y → dx, overwritten: y (dy - Σ dy y), or dy - e^y Σ dy for log-softmax.
template <class T, int kLanes>
struct SoftmaxGradientTasks {
  using Scratch = NoScratch;
  Rows rows;
  bool logarithm;
  const T *dy, *y;
  T* dx;

  __device__ void run(int task, Scratch&) const {
    const Row row = rows.mine<kLanes>(task);
    if (!row.there) return;
    double sum = 0;
#pragma unroll(kUnrolled<kLanes>)
    for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
      const std::int64_t at = row.first + k * rows.inner;
      const double gradient = static_cast<double>(dy[at]);
      sum += logarithm ? gradient : gradient * static_cast<double>(y[at]);
    }
    const T total = static_cast<T>(combine<kLanes>(sum, Sum()));
#pragma unroll(kUnrolled<kLanes>)
    for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
      const std::int64_t at = row.first + k * rows.inner;
      dx[at] = logarithm ? dy[at] - ::exp(y[at]) * total : y[at] * (dy[at] - total);
    }
  }
};

}  // namespace traingraph::cuda
