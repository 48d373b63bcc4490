// Pooling and its gradient. Each thread owns one element of the result; the gradient gathers from
// the windows over an element in row-major order, so that nothing is added atomically.
#include "backends/cuda/node_kernel.h"
#include "backends/cuda/window.h"

namespace traingraph::cuda {
namespace {

struct Plan {
  ir::PoolingKind kind;
  bool count_includes_padding, wide_index;
  WindowAxis rows, columns;
  std::int64_t count;  // elements of the result
  Divider by_columns, by_rows;  // of the result

  __device__ std::int64_t source_plane(std::int64_t plane) const {
    return plane * rows.source * columns.source;
  }
  __device__ std::int64_t position_plane(std::int64_t plane) const {
    return plane * rows.positions * columns.positions;
  }
  // What an average divides by.
  __device__ int divisor(int row, int column) const {
    if (count_includes_padding) return rows.kernel * columns.kernel;
    return rows.taps_inside(row) * columns.taps_inside(column);
  }
};

// x (N, C, H, W) → y (N, C, P, Q) [, index (N, C, P, Q)]. The first largest element wins; a NaN wins
// over every number.
template <class T>
__global__ void __launch_bounds__(kThreads)
    pool(const __grid_constant__ Plan plan, const T* x, T* y, std::byte* index) {
  const std::int64_t element = thread_number();
  if (element >= plan.count) return;
  std::int64_t plane = element;
  const int column = static_cast<int>(plan.by_columns.split(plane));
  const int row = static_cast<int>(plan.by_rows.split(plane));
  const T* const source = x + plan.source_plane(plane);
  T best = T(0);
  int place = -1;
  double sum = 0;
  for (int i = 0; i < plan.rows.kernel; ++i) {
    const int h = plan.rows.under(row, i);
    if (h < 0) continue;
    for (int j = 0; j < plan.columns.kernel; ++j) {
      const int w = plan.columns.under(column, j);
      if (w < 0) continue;
      const T value = source[static_cast<std::int64_t>(h) * plan.columns.source + w];
      if (plan.kind == ir::PoolingKind::max) {
        if (place < 0 || value > best || (value != value && best == best)) {
          best = value;
          place = i * plan.columns.kernel + j;
        }
      } else {
        const double wide = static_cast<double>(value);
        sum += plan.kind == ir::PoolingKind::average ? wide : wide * wide;
      }
    }
  }
  if (plan.kind == ir::PoolingKind::max) {
    y[element] = best;
    if (index == nullptr) return;
    if (plan.wide_index) {
      reinterpret_cast<std::int32_t*>(index)[element] = place;
    } else {
      index[element] = static_cast<std::byte>(place);
    }
  } else if (plan.kind == ir::PoolingKind::average) {
    y[element] = static_cast<T>(sum / plan.divisor(row, column));
  } else {
    y[element] = static_cast<T>(::sqrt(sum));
  }
}

// max: dy (N, C, P, Q), index (N, C, P, Q); average: dy; L2: dy, x (N, C, H, W), y (N, C, P, Q) →
// dx (N, C, H, W), overwritten
template <class T>
__global__ void __launch_bounds__(kThreads)
    pool_gradient(const __grid_constant__ Plan plan, const T* dy, const std::byte* second,
                  const T* y, T* dx) {
  const std::int64_t element = thread_number();
  if (element >= plan.count) return;
  std::int64_t plane = element;
  const int w = static_cast<int>(plan.by_columns.split(plane));
  const int h = static_cast<int>(plan.by_rows.split(plane));
  const std::int64_t start = plan.position_plane(plane);
  T sum = T(0);
  // Positions in ascending order: taps in descending order.
  for (int i = plan.rows.kernel - 1; i >= 0; --i) {
    const int row = plan.rows.position_of(h, i);
    if (row < 0) continue;
    for (int j = plan.columns.kernel - 1; j >= 0; --j) {
      const int column = plan.columns.position_of(w, j);
      if (column < 0) continue;
      const std::int64_t at =
          start + static_cast<std::int64_t>(row) * plan.columns.positions + column;
      if (plan.kind == ir::PoolingKind::max) {
        const int place = plan.wide_index ? reinterpret_cast<const std::int32_t*>(second)[at]
                                          : static_cast<int>(second[at]);
        if (place == i * plan.columns.kernel + j) sum += dy[at];
      } else if (plan.kind == ir::PoolingKind::average) {
        sum += static_cast<T>(static_cast<double>(dy[at]) / plan.divisor(row, column));
      } else if (y[at] != T(0)) {
        // y = sqrt(Σ x²): dx = dy x / y; at 0 there is no derivative, the gradient is 0.
        sum += dy[at] * reinterpret_cast<const T*>(second)[element] / y[at];
      }
    }
  }
  dx[element] = sum;
}

template <class T>
class Pooling final : public NodeKernel {
 public:
  Pooling(const ir::Graph& graph, const ir::Node& node, const Context&)
      : NodeKernel(graph, node), gradient_(node.op == ir::Op::pooling_gradient) {
    const auto& a = std::get<ir::PoolingAttributes>(node.attributes);
    const Shape& source = graph.type(gradient_ ? node.outputs[0] : node.inputs[0]).shape;
    const Shape& positions = graph.type(gradient_ ? node.inputs[0] : node.outputs[0]).shape;
    const Shape& result = graph.type(node.outputs[0]).shape;
    plan_.kind = a.kind;
    plan_.count_includes_padding = a.count_includes_padding;
    plan_.rows = WindowAxis(a.window, 0, source[2], positions[2]);
    plan_.columns = WindowAxis(a.window, 1, source[3], positions[3]);
    plan_.count = element_count(result);
    plan_.by_rows = Divider(result[2]);
    plan_.by_columns = Divider(result[3]);
    const auto& with_index = gradient_ ? node.inputs : node.outputs;
    plan_.wide_index = a.kind == ir::PoolingKind::max && with_index.size() > 1 &&
                       graph.type(with_index[1]).data_type == DataType::kInt32;
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (plan_.count == 0) return;
    const unsigned blocks = blocks_for(plan_.count);
    if (gradient_) {
      const auto* second = inputs_.size() > 1 ? in<std::byte>(pointers, 1) : nullptr;
      const T* y = inputs_.size() > 2 ? in<T>(pointers, 2) : nullptr;
      pool_gradient<T><<<blocks, kThreads, 0, stream>>>(plan_, in<T>(pointers, 0), second, y,
                                                        out<T>(pointers, 0));
    } else {
      auto* index = outputs_.size() > 1 ? out<std::byte>(pointers, 1) : nullptr;
      pool<T><<<blocks, kThreads, 0, stream>>>(plan_, in<T>(pointers, 0), out<T>(pointers, 0),
                                               index);
    }
    check_launch("pooling");
  }

 private:
  bool gradient_;
  Plan plan_{};
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const auto& a = std::get<ir::PoolingAttributes>(node.attributes);
  const bool gradient = node.op == ir::Op::pooling_gradient;
  const Shape& source = graph.type(gradient ? node.outputs[0] : node.inputs[0]).shape;
  const Shape& positions = graph.type(gradient ? node.inputs[0] : node.outputs[0]).shape;
  if (!window_fits(a.window, source, positions)) return Support::no("an extent above 2^29");
  return supports_floating(graph, node);
}

}  // namespace

std::vector<KernelEntry> pooling_entries() {
  return {{ir::Op::pooling, supports, make_floating<Pooling>, nullptr, nullptr},
          {ir::Op::pooling_gradient, supports, make_floating<Pooling>, nullptr, nullptr}};
}

}  // namespace traingraph::cuda
