// Softmax cross entropy and its gradient as tasks: one thread, warp or block per position. For .cu
// files only.
#pragma once

#include "backends/cuda/tasks/rows.h"
#include "backends/cuda/tasks/tasks.h"
#include "ir/graph.h"

namespace traingraph::cuda {

// The labels of one op: t' = t (1 - s) + s / K, from a distribution (N, K, …) or from classes
// (N, 1, …). Class -1 ignores the position.
struct Labels {
  DataType type;
  const std::byte* data;
  double scale, share;
  double named, other;  // t' of the position's class and of the others

  // The class of a position; -2 if the labels are a distribution.
  __device__ std::int64_t class_of(std::int64_t position) const {
    if (type == DataType::kInt64) return reinterpret_cast<const std::int64_t*>(data)[position];
    if (type == DataType::kInt32) return reinterpret_cast<const std::int32_t*>(data)[position];
    return -2;
  }
  // t' of class k, whose logit is at `at`. `label` is the position's class.
  template <class T>
  __device__ T value(std::int64_t label, std::int64_t k, std::int64_t at) const {
    if (label != -2) return static_cast<T>(label == k ? named : other);
    return static_cast<T>(static_cast<double>(reinterpret_cast<const T*>(data)[at]) * scale +
                          share);
  }
};

// The labels without their address. The logits are the input before the labels.
inline Labels labels_of(const ir::Graph& graph, const ir::Node& node, std::size_t input) {
  const auto& a = std::get<ir::CrossEntropyAttributes>(node.attributes);
  const std::int64_t extent = graph.type(node.inputs[input - 1]).shape[1];
  Labels labels{};
  labels.type = graph.type(node.inputs[input]).data_type;
  labels.scale = 1 - a.smoothing;
  labels.share = a.smoothing / static_cast<double>(a.classes > 0 ? a.classes : extent);
  labels.named = labels.scale + labels.share;
  labels.other = labels.share;
  return labels;
}

// logits (N, K, …), labels → loss (N, 1, …), log Σ e^(x - largest) (N, 1, …). The loss is
// Σ t' (log Σ e^(x - largest) - (x - largest)), in which no large numbers cancel. Terms with t' = 0
// are 0, even if x is not finite.
template <class T, int kLanes>
struct LossTasks {
  using Scratch = NoScratch;
  Rows rows;
  Labels labels;
  const T* x;
  T *loss, *logarithm;

  __device__ void run(int task, Scratch&) const { run(rows.mine<kLanes>(task)); }
  __device__ void run(const Row& row) const {
    if (!row.there) return;
    const Exponentials<T> e = exponentials<kLanes>(rows, row, x);
    const T log_sum = ::log(e.sum);
    const std::int64_t label = labels.class_of(row.number);
    double total = 0;
    if (label != -1) {
#pragma unroll(kUnrolled<kLanes>)
      for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
        const std::int64_t at = row.first + k * rows.inner;
        const T share = labels.value<T>(label, k, at);
        if (share != T(0)) total += static_cast<double>(share * (log_sum - (x[at] - e.largest)));
      }
    }
    total = combine<kLanes>(total, Sum());
    if (row.lane != 0) return;
    loss[row.number] = static_cast<T>(total);
    logarithm[row.number] = log_sum;
  }
};

// dloss (N, 1, …), logits (N, K, …), labels, logarithm (N, 1, …) → dlogits (N, K, …), overwritten:
// dloss (softmax Σ t' - t'), 0 where dloss is 0, even if x is not finite.
template <class T, int kLanes>
struct LossGradientTasks {
  using Scratch = NoScratch;
  Rows rows;
  Labels labels;
  const T *dloss, *x, *logarithm;
  T* dx;

  __device__ void run(int task, Scratch&) const { run(rows.mine<kLanes>(task)); }
  __device__ void run(const Row& row) const {
    if (!row.there) return;
    const std::int64_t label = labels.class_of(row.number);
    const T slope = dloss[row.number];
    if (label == -1 || slope == T(0)) {
#pragma unroll(kUnrolled<kLanes>)
      for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
        dx[row.first + k * rows.inner] = T(0);
      }
      return;
    }
    double sum = 0;
#pragma unroll(kUnrolled<kLanes>)
    for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
      sum += static_cast<double>(labels.value<T>(label, k, row.first + k * rows.inner));
    }
    const T total = static_cast<T>(combine<kLanes>(sum, Sum()));
    const T log_sum = logarithm[row.number];
    const T largest = largest_of<kLanes>(rows, row, x);
#pragma unroll(kUnrolled<kLanes>)
    for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
      const std::int64_t at = row.first + k * rows.inner;
      const T part = total == T(0) ? T(0) : ::exp((x[at] - largest) - log_sum) * total;
      dx[at] = slope * (part - labels.value<T>(label, k, at));
    }
  }
};

}  // namespace traingraph::cuda
