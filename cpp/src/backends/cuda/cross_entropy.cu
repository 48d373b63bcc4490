// Softmax cross entropy and its gradient: one thread, warp or block per position, by shape.
#include "backends/cuda/device.h"
#include "backends/cuda/node_kernel.h"
#include "backends/cuda/rows.h"

namespace traingraph::cuda {
namespace {

// Labels of one op: t' = t (1 - s) + s / K, from a distribution (N, K, …) or from classes (N, 1, …)
// of which -1 ignores the position.
struct Labels {
  DataType type;
  const std::byte* data;
  double scale, share;
  double named, other;  // t' of the position's class and of the others

  // Of a position; -2 where the labels are a distribution.
  __device__ std::int64_t class_of(std::int64_t position) const {
    if (type == DataType::kInt64) return reinterpret_cast<const std::int64_t*>(data)[position];
    if (type == DataType::kInt32) return reinterpret_cast<const std::int32_t*>(data)[position];
    return -2;
  }
  // t' of class k, whose logit lies at `at`; `label` is the position's class.
  template <class T>
  __device__ T value(std::int64_t label, std::int64_t k, std::int64_t at) const {
    if (label != -2) return static_cast<T>(label == k ? named : other);
    return static_cast<T>(static_cast<double>(reinterpret_cast<const T*>(data)[at]) * scale +
                          share);
  }
};

// logits (N, K, …), labels → loss (N, 1, …), logsumexp (N, 1, …). The loss adds up
// t' (log Σ e^(x - largest) - (x - largest)): no large numbers cancel. Terms with t' = 0 add
// nothing, even where x is not finite.
template <class T, int kLanes>
__global__ void __launch_bounds__(kThreads)
    loss_of(const __grid_constant__ Rows rows, Labels labels, const T* x, T* loss, T* logsumexp) {
  const Row row = rows.mine<kLanes>();
  if (!row.there) return;
  T largest = -infinity<T>();
  for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
    largest = Largest()(largest, x[row.first + k * rows.inner]);
  }
  largest = combine<kLanes>(largest, Largest());
  double sum = 0;
  for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
    sum += static_cast<double>(::exp(x[row.first + k * rows.inner] - largest));
  }
  const T log_sum = ::log(static_cast<T>(combine<kLanes>(sum, Sum())));
  const std::int64_t label = labels.class_of(row.number);
  double total = 0;
  if (label != -1) {
    for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
      const std::int64_t at = row.first + k * rows.inner;
      const T share = labels.value<T>(label, k, at);
      if (share != T(0)) total += static_cast<double>(share * (log_sum - (x[at] - largest)));
    }
  }
  total = combine<kLanes>(total, Sum());
  if (row.lane != 0) return;
  loss[row.number] = static_cast<T>(total);
  logsumexp[row.number] = largest + log_sum;
}

// dloss (N, 1, …), logits (N, K, …), labels, logsumexp (N, 1, …) → dlogits (N, K, …), overwritten:
// dloss (softmax Σ t' - t').
template <class T, int kLanes>
__global__ void __launch_bounds__(kThreads)
    gradient_of(const __grid_constant__ Rows rows, Labels labels, const T* dloss, const T* x,
                const T* logsumexp, T* dx) {
  const Row row = rows.mine<kLanes>();
  if (!row.there) return;
  const std::int64_t label = labels.class_of(row.number);
  if (label == -1) {
    for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
      dx[row.first + k * rows.inner] = T(0);
    }
    return;
  }
  double sum = 0;
  for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
    sum += static_cast<double>(labels.value<T>(label, k, row.first + k * rows.inner));
  }
  const T total = static_cast<T>(combine<kLanes>(sum, Sum()));
  const T slope = dloss[row.number], shift = logsumexp[row.number];
  for (std::int64_t k = row.lane; k < rows.extent; k += kLanes) {
    const std::int64_t at = row.first + k * rows.inner;
    const T part = total == T(0) ? T(0) : ::exp(x[at] - shift) * total;
    dx[at] = slope * (part - labels.value<T>(label, k, at));
  }
}

template <class T>
class CrossEntropy final : public NodeKernel {
 public:
  CrossEntropy(const ir::Graph& graph, const ir::Node& node, const Context&)
      : NodeKernel(graph, node),
        gradient_(node.op == ir::Op::softmax_cross_entropy_gradient),
        rows_(graph.type(node.inputs[gradient_ ? 1 : 0]).shape, 1) {
    const auto& a = std::get<ir::CrossEntropyAttributes>(node.attributes);
    labels_.type = graph.type(node.inputs[labels_input()]).data_type;
    labels_.scale = 1 - a.smoothing;
    labels_.share = a.smoothing / static_cast<double>(a.classes > 0 ? a.classes : rows_.extent);
    labels_.named = labels_.scale + labels_.share;
    labels_.other = labels_.share;
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (rows_.count() == 0) return;
    Labels labels = labels_;
    labels.data = in<std::byte>(pointers, labels_input());
    with_lanes(rows_.lanes(), [&](auto lanes) {
      constexpr int kLanes = decltype(lanes)::value;
      const unsigned blocks = blocks_for(rows_.count() * kLanes);
      if (gradient_) {
        gradient_of<T, kLanes>
            <<<blocks, kThreads, 0, stream>>>(rows_, labels, in<T>(pointers, 0), in<T>(pointers, 1),
                                              in<T>(pointers, 3), out<T>(pointers, 0));
      } else {
        loss_of<T, kLanes><<<blocks, kThreads, 0, stream>>>(
            rows_, labels, in<T>(pointers, 0), out<T>(pointers, 0), out<T>(pointers, 1));
      }
    });
    check_launch("softmax_cross_entropy");
  }

 private:
  std::size_t labels_input() const { return gradient_ ? 2 : 1; }

  bool gradient_;
  Rows rows_;
  Labels labels_{};
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const std::size_t input = node.op == ir::Op::softmax_cross_entropy ? 1 : 2;
  const DataType labels = graph.type(node.inputs[input]).data_type;
  if (!is_floating_point(labels) && labels != DataType::kInt32 && labels != DataType::kInt64) {
    return Support::no(std::string("labels of data type ") + name(labels));
  }
  return supports_floating(graph, node);
}

}  // namespace

std::vector<KernelEntry> cross_entropy_entries() {
  return {{ir::Op::softmax_cross_entropy, supports, make_floating<CrossEntropy>, nullptr, nullptr},
          {ir::Op::softmax_cross_entropy_gradient, supports, make_floating<CrossEntropy>, nullptr,
           nullptr}};
}

}  // namespace traingraph::cuda
