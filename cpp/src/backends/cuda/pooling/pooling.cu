// Pooling and its gradient. Each thread owns one element of the result, or a pack of neighbouring
// channels. The gradient gathers from the windows over an element in row-major order, so that no
// addition is atomic. Tensors are seen as (planes, rows, columns, inner): with the channel
// innermost, `inner` is the channels, otherwise every channel is a plane.
#include "backends/cuda/convolution/layouts.h"
#include "backends/cuda/device/storage.h"
#include "backends/cuda/device/window.h"
#include "backends/cuda/kernel/node_kernel.h"

namespace traingraph::cuda {
namespace {

struct Plan {
  ir::PoolingKind kind;
  bool count_includes_padding, wide_index;
  WindowAxis rows, columns;
  std::int64_t inner;
  std::int64_t count;                     // threads: elements of the result, or packs of them
  Divider by_inner, by_columns, by_rows;  // of the result, `inner` in packs

  // The divisor of an average.
  __device__ int divisor(int row, int column) const {
    if (count_includes_padding) return rows.kernel * columns.kernel;
    return rows.taps_inside(row) * columns.taps_inside(column);
  }
  __device__ std::int64_t in_source(std::int64_t plane, int h, int w) const {
    return ((plane * rows.source + h) * columns.source + w) * inner;
  }
  __device__ std::int64_t in_positions(std::int64_t plane, int row, int column) const {
    return ((plane * rows.positions + row) * columns.positions + column) * inner;
  }
};

// The position of a thread's elements in the result.
template <int kPack>
struct Place {
  std::int64_t plane, inner;  // `inner` is the first of them
  int row, column;

  __device__ Place(const Plan& plan, std::int64_t number) {
    if (plan.count <= INT32_MAX) {
      auto rest = static_cast<std::uint32_t>(number);
      inner = plan.by_inner.split_narrow(rest);
      column = static_cast<int>(plan.by_columns.split_narrow(rest));
      row = static_cast<int>(plan.by_rows.split_narrow(rest));
      plane = rest;
    } else {
      plane = number;
      inner = plan.by_inner.split(plane);
      column = static_cast<int>(plan.by_columns.split(plane));
      row = static_cast<int>(plan.by_rows.split(plane));
    }
    inner *= kPack;
  }
};

// x → y [, index]. The first largest element wins; a NaN wins over every number. kSize is the
// kernel's extent along both axes, 0 for any.
template <class S, ir::PoolingKind kKind, int kPack, int kSize>
__global__ void __launch_bounds__(kThreads)
    pool(const __grid_constant__ Plan plan, const S* x, S* y, std::byte* index) {
  using T = Compute<S>;
  const std::int64_t number = thread_number();
  if (number >= plan.count) return;
  const Place<kPack> at(plan, number);
  const int rows = kSize > 0 ? kSize : plan.rows.kernel;
  const int columns = kSize > 0 ? kSize : plan.columns.kernel;
  T best[kPack] = {};
  int place[kPack];
  double sum[kPack] = {};
#pragma unroll
  for (int v = 0; v < kPack; ++v) place[v] = -1;
#pragma unroll
  for (int i = 0; i < rows; ++i) {
    const int h = plan.rows.under(at.row, i);
    if (h < 0) continue;
#pragma unroll
    for (int j = 0; j < columns; ++j) {
      const int w = plan.columns.under(at.column, j);
      if (w < 0) continue;
      const auto values = widen(load<kPack>(x + plan.in_source(at.plane, h, w) + at.inner));
#pragma unroll
      for (int v = 0; v < kPack; ++v) {
        const T value = values.element[v];
        if constexpr (kKind == ir::PoolingKind::max) {
          if (place[v] < 0 || value > best[v] || (value != value && best[v] == best[v])) {
            best[v] = value;
            place[v] = i * columns + j;
          }
        } else {
          const double wide = static_cast<double>(value);
          sum[v] += kKind == ir::PoolingKind::average ? wide : wide * wide;
        }
      }
    }
  }
  const std::int64_t to = plan.in_positions(at.plane, at.row, at.column) + at.inner;
  Pack<T, kPack> result;
#pragma unroll
  for (int v = 0; v < kPack; ++v) {
    if constexpr (kKind == ir::PoolingKind::max) {
      result.element[v] = best[v];
    } else if constexpr (kKind == ir::PoolingKind::average) {
      result.element[v] = static_cast<T>(sum[v] / plan.divisor(at.row, at.column));
    } else {
      result.element[v] = static_cast<T>(::sqrt(sum[v]));
    }
  }
  store(y + to, narrow<S>(result));
  if constexpr (kKind == ir::PoolingKind::max) {
    if (index == nullptr) return;
    auto put = [&](auto sample) {
      using I = decltype(sample);
      Pack<I, kPack> places;
#pragma unroll
      for (int v = 0; v < kPack; ++v) places.element[v] = static_cast<I>(place[v]);
      store(reinterpret_cast<I*>(index) + to, places);
    };
    if (plan.wide_index) {
      put(std::int32_t{});
    } else {
      put(std::uint8_t{});
    }
  }
}

// The operands of a gradient, over positions unless stated otherwise. max: dy, index; average: dy;
// L2: dy, x (over the source), y.
template <class S>
struct Sources {
  const S* dy;
  const std::byte* second;
  const S* y;
};

// Adds the share of the position (row, column), at `at`, to the gradients of the elements x under
// this tap.
template <class S, ir::PoolingKind kKind, int kPack>
__device__ void add_share(const Plan& plan, const Sources<S>& from, std::int64_t at, int row,
                          int column, int tap, const Pack<S, kPack>& x, Compute<S> (&sum)[kPack]) {
  using T = Compute<S>;
  const auto dy = widen(load<kPack>(from.dy + at));
  if constexpr (kKind == ir::PoolingKind::max) {
    auto add = [&](auto sample) {
      const auto places = load<kPack>(reinterpret_cast<const decltype(sample)*>(from.second) + at);
#pragma unroll
      for (int v = 0; v < kPack; ++v) {
        if (static_cast<int>(places.element[v]) == tap) sum[v] += dy.element[v];
      }
    };
    if (plan.wide_index) {
      add(std::int32_t{});
    } else {
      add(std::uint8_t{});
    }
  } else if constexpr (kKind == ir::PoolingKind::average) {
    const T divisor = static_cast<T>(plan.divisor(row, column));
#pragma unroll
    for (int v = 0; v < kPack; ++v) sum[v] += dy.element[v] / divisor;
  } else {
    // y = sqrt(Σ x²), so dx = dy x / y. At 0 there is no derivative; the gradient is 0.
    const auto y = load<kPack>(from.y + at);
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      const T root = widen(y.element[v]);
      if (root != T(0)) sum[v] += dy.element[v] * widen(x.element[v]) / root;
    }
  }
}

// … → dx, overwritten. Positions are visited in ascending order.
template <class S, ir::PoolingKind kKind, int kPack>
__global__ void __launch_bounds__(kThreads)
    pool_gradient(const __grid_constant__ Plan plan, Sources<S> from, S* dx) {
  const std::int64_t number = thread_number();
  if (number >= plan.count) return;
  const Place<kPack> at(plan, number);
  const int w = at.column, h = at.row;
  const std::int64_t to = plan.in_source(at.plane, h, w) + at.inner;
  Pack<S, kPack> x = {};
  if constexpr (kKind == ir::PoolingKind::l2_norm) {
    x = load<kPack>(reinterpret_cast<const S*>(from.second) + to);
  }
  Compute<S> sum[kPack] = {};
  auto visit = [&](int row, int column, int i, int j) {
    add_share<S, kKind, kPack>(plan, from, plan.in_positions(at.plane, row, column) + at.inner, row,
                               column, i * plan.columns.kernel + j, x, sum);
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
  Pack<Compute<S>, kPack> result;
#pragma unroll
  for (int v = 0; v < kPack; ++v) result.element[v] = sum[v];
  store(dx + to, narrow<S>(result));
}

template <class S, ir::PoolingKind kKind, int kPack>
auto pool_of_size(const Plan& plan) {
  const int size = plan.rows.kernel == plan.columns.kernel ? plan.rows.kernel : 0;
  if constexpr (kKind == ir::PoolingKind::max) {
    if (size == 2) return pool<S, kKind, kPack, 2>;
    if (size == 3) return pool<S, kKind, kPack, 3>;
  }
  return pool<S, kKind, kPack, 0>;
}

template <class S>
class Pooling final : public NodeKernel {
 public:
  Pooling(const ir::Graph& graph, const ir::Node& node, const Context&)
      : NodeKernel(graph, node), gradient_(node.op == ir::Op::pooling_gradient) {
    const auto& a = std::get<ir::PoolingAttributes>(node.attributes);
    const Shape& source = graph.type(gradient_ ? node.outputs[0] : node.inputs[0]).shape;
    const Shape& positions = graph.type(gradient_ ? node.inputs[0] : node.outputs[0]).shape;
    const Shape& result = graph.type(node.outputs[0]).shape;
    const bool channels_last = !normalization_layouts(graph, node).outputs[0].plain();
    plan_.kind = a.kind;
    plan_.count_includes_padding = a.count_includes_padding;
    plan_.rows = WindowAxis(a.window, 0, source[2], positions[2]);
    plan_.columns = WindowAxis(a.window, 1, source[3], positions[3]);
    plan_.inner = channels_last ? result[1] : 1;
    packs_ = plan_.inner % kElements == 0;
    const int pack = packs_ ? kElements : 1;
    plan_.count = element_count(result) / pack;
    plan_.by_inner = Divider(plan_.inner / pack);
    plan_.by_rows = Divider(result[2]);
    plan_.by_columns = Divider(result[3]);
    const auto& with_index = gradient_ ? node.inputs : node.outputs;
    plan_.wide_index = a.kind == ir::PoolingKind::max && with_index.size() > 1 &&
                       graph.type(with_index[1]).data_type == DataType::kInt32;
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (plan_.count == 0) return;
    if (packs_) {
      enqueue<kElements>(pointers, stream);
    } else {
      enqueue<1>(pointers, stream);
    }
    check_launch("pooling");
  }

 private:
  static constexpr int kElements = Pack<S>::kElements;

  template <int kPack>
  void enqueue(Pointers pointers, cudaStream_t stream) const {
    switch (plan_.kind) {
      case ir::PoolingKind::max:
        return enqueue<ir::PoolingKind::max, kPack>(pointers, stream);
      case ir::PoolingKind::average:
        return enqueue<ir::PoolingKind::average, kPack>(pointers, stream);
      case ir::PoolingKind::l2_norm:
        return enqueue<ir::PoolingKind::l2_norm, kPack>(pointers, stream);
    }
  }

  template <ir::PoolingKind kKind, int kPack>
  void enqueue(Pointers pointers, cudaStream_t stream) const {
    const unsigned blocks = blocks_for(plan_.count);
    if (gradient_) {
      const Sources<S> from{in<S>(pointers, 0),
                            inputs_.size() > 1 ? in<std::byte>(pointers, 1) : nullptr,
                            inputs_.size() > 2 ? in<S>(pointers, 2) : nullptr};
      pool_gradient<S, kKind, kPack>
          <<<blocks, kThreads, 0, stream>>>(plan_, from, out<S>(pointers, 0));
    } else {
      auto* const index = outputs_.size() > 1 ? out<std::byte>(pointers, 1) : nullptr;
      pool_of_size<S, kKind, kPack>(plan_)<<<blocks, kThreads, 0, stream>>>(
          plan_, in<S>(pointers, 0), out<S>(pointers, 0), index);
    }
  }

  bool gradient_, packs_;
  Plan plan_{};
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const auto& a = std::get<ir::PoolingAttributes>(node.attributes);
  const bool gradient = node.op == ir::Op::pooling_gradient;
  const Shape& source = graph.type(gradient ? node.outputs[0] : node.inputs[0]).shape;
  const Shape& positions = graph.type(gradient ? node.inputs[0] : node.outputs[0]).shape;
  if (!window_fits(a.window, source, positions)) return Support::no("an extent above 2^29");
  return supports_floating_or_half(graph, node);
}

}  // namespace

std::vector<KernelEntry> pooling_entries() {
  return {
      {ir::Op::pooling, supports, make_floating_or_half<Pooling>, normalization_layouts, nullptr},
      {ir::Op::pooling_gradient, supports, make_floating_or_half<Pooling>, normalization_layouts,
       nullptr}};
}

}  // namespace traingraph::cuda
