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
  std::int64_t count;           // elements of the result
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

// Where an element of the result lies.
struct Place {
  std::int64_t plane;
  int row, column;

  __device__ Place(const Plan& plan, std::int64_t element) {
    if (plan.count <= INT32_MAX) {
      auto rest = static_cast<std::uint32_t>(element);
      column = static_cast<int>(plan.by_columns.split_narrow(rest));
      row = static_cast<int>(plan.by_rows.split_narrow(rest));
      plane = rest;
    } else {
      plane = element;
      column = static_cast<int>(plan.by_columns.split(plane));
      row = static_cast<int>(plan.by_rows.split(plane));
    }
  }
};

// x (N, C, H, W) → y (N, C, P, Q) [, index (N, C, P, Q)]. The first largest element wins; a NaN
// wins over every number. kSize is the kernel's extent along both axes, 0 for any.
template <class T, ir::PoolingKind kKind, int kSize>
__global__ void __launch_bounds__(kThreads)
    pool(const __grid_constant__ Plan plan, const T* x, T* y, std::byte* index) {
  const std::int64_t element = thread_number();
  if (element >= plan.count) return;
  const Place at_result(plan, element);
  const int column = at_result.column, row = at_result.row;
  const std::int64_t plane = at_result.plane;
  const T* const source = x + plan.source_plane(plane);
  const int rows = kSize > 0 ? kSize : plan.rows.kernel;
  const int columns = kSize > 0 ? kSize : plan.columns.kernel;
  T best = T(0);
  int place = -1;
  double sum = 0;
#pragma unroll
  for (int i = 0; i < rows; ++i) {
    const int h = plan.rows.under(row, i);
    if (h < 0) continue;
#pragma unroll
    for (int j = 0; j < columns; ++j) {
      const int w = plan.columns.under(column, j);
      if (w < 0) continue;
      const T value = source[static_cast<std::int64_t>(h) * plan.columns.source + w];
      if constexpr (kKind == ir::PoolingKind::max) {
        if (place < 0 || value > best || (value != value && best == best)) {
          best = value;
          place = i * columns + j;
        }
      } else {
        const double wide = static_cast<double>(value);
        sum += kKind == ir::PoolingKind::average ? wide : wide * wide;
      }
    }
  }
  if constexpr (kKind == ir::PoolingKind::max) {
    y[element] = best;
    if (index == nullptr) return;
    if (plan.wide_index) {
      reinterpret_cast<std::int32_t*>(index)[element] = place;
    } else {
      index[element] = static_cast<std::byte>(place);
    }
  } else if constexpr (kKind == ir::PoolingKind::average) {
    y[element] = static_cast<T>(sum / plan.divisor(row, column));
  } else {
    y[element] = static_cast<T>(::sqrt(sum));
  }
}

// The operands of a gradient. max: dy (N, C, P, Q), index (N, C, P, Q); average: dy; L2: dy,
// x (N, C, H, W), y (N, C, P, Q).
template <class T>
struct Sources {
  const T* dy;
  const std::byte* second;
  const T* y;
};

// What the position (row, column), at `at`, gives to an element that lies under this tap.
template <class T, ir::PoolingKind kKind>
__device__ T share_of(const Plan& plan, const Sources<T>& from, std::int64_t at, int row,
                      int column, int tap, T x) {
  if constexpr (kKind == ir::PoolingKind::max) {
    const int place = plan.wide_index ? reinterpret_cast<const std::int32_t*>(from.second)[at]
                                      : static_cast<int>(from.second[at]);
    return place == tap ? from.dy[at] : T(0);
  } else if constexpr (kKind == ir::PoolingKind::average) {
    return from.dy[at] / static_cast<T>(plan.divisor(row, column));
  } else {
    // y = sqrt(Σ x²): dx = dy x / y; at 0 there is no derivative, the gradient is 0.
    const T y = from.y[at];
    return y == T(0) ? T(0) : from.dy[at] * x / y;
  }
}

// … → dx (N, C, H, W), overwritten. Positions are visited in ascending order.
template <class T, ir::PoolingKind kKind>
__global__ void __launch_bounds__(kThreads)
    pool_gradient(const __grid_constant__ Plan plan, Sources<T> from, T* dx) {
  const std::int64_t element = thread_number();
  if (element >= plan.count) return;
  const Place at_result(plan, element);
  const int w = at_result.column, h = at_result.row;
  const std::int64_t plane = at_result.plane;
  const std::int64_t start = plan.position_plane(plane);
  T x = T(0);
  if constexpr (kKind == ir::PoolingKind::l2_norm) {
    x = reinterpret_cast<const T*>(from.second)[element];
  }
  T sum = T(0);
  auto visit = [&](int row, int column, int i, int j) {
    const std::int64_t at =
        start + static_cast<std::int64_t>(row) * plan.columns.positions + column;
    sum += share_of<T, kKind>(plan, from, at, row, column, i * plan.columns.kernel + j, x);
  };
  if (plan.rows.dilation == 1 && plan.columns.dilation == 1) {
    const int last_row = plan.rows.last_position(h), last_column = plan.columns.last_position(w);
    const int first_column = plan.columns.first_position(w);
    for (int row = plan.rows.first_position(h); row <= last_row; ++row) {
      const int i = h + plan.rows.padding - row * plan.rows.stride;
      for (int column = first_column; column <= last_column; ++column) {
        visit(row, column, i, w + plan.columns.padding - column * plan.columns.stride);
      }
    }
  } else {
    for (int i = plan.rows.kernel - 1; i >= 0; --i) {
      const int row = plan.rows.position_of(h, i);
      if (row < 0) continue;
      for (int j = plan.columns.kernel - 1; j >= 0; --j) {
        const int column = plan.columns.position_of(w, j);
        if (column >= 0) visit(row, column, i, j);
      }
    }
  }
  dx[element] = sum;
}

template <class T, ir::PoolingKind kKind>
auto pool_of_size(const Plan& plan) {
  const int size = plan.rows.kernel == plan.columns.kernel ? plan.rows.kernel : 0;
  return size == 2 ? pool<T, kKind, 2> : (size == 3 ? pool<T, kKind, 3> : pool<T, kKind, 0>);
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
    if (plan_.kind == ir::PoolingKind::max) enqueue<ir::PoolingKind::max>(pointers, stream);
    if (plan_.kind == ir::PoolingKind::average) enqueue<ir::PoolingKind::average>(pointers, stream);
    if (plan_.kind == ir::PoolingKind::l2_norm) enqueue<ir::PoolingKind::l2_norm>(pointers, stream);
    check_launch("pooling");
  }

 private:
  template <ir::PoolingKind kKind>
  void enqueue(Pointers pointers, cudaStream_t stream) const {
    const unsigned blocks = blocks_for(plan_.count);
    if (gradient_) {
      const Sources<T> from{in<T>(pointers, 0),
                            inputs_.size() > 1 ? in<std::byte>(pointers, 1) : nullptr,
                            inputs_.size() > 2 ? in<T>(pointers, 2) : nullptr};
      pool_gradient<T, kKind><<<blocks, kThreads, 0, stream>>>(plan_, from, out<T>(pointers, 0));
    } else {
      auto* const index = outputs_.size() > 1 ? out<std::byte>(pointers, 1) : nullptr;
      pool_of_size<T, kKind>(plan_)<<<blocks, kThreads, 0, stream>>>(plan_, in<T>(pointers, 0),
                                                                     out<T>(pointers, 0), index);
    }
  }

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
