// Hand-written convolution and its adjoints for every type and layout, used where cuDNN has no
// engine. Each result element is computed alone: a float64 sum over the taps that meet the source.
#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/convolution/layouts.h"
#include "backends/cuda/convolution/space_to_depth.h"
#include "backends/cuda/device/storage.h"
#include "backends/cuda/device/transpose.h"
#include "backends/cuda/device/window.h"
#include "backends/cuda/kernel/node_kernel.h"

namespace traingraph::cuda {
namespace {

// Distances between elements along four axes.
struct Strides {
  std::int64_t at[4];

  Strides() = default;
  Strides(const Shape& shape, bool channels_last) {
    const std::int64_t c = shape[1], h = shape[2], w = shape[3];
    if (channels_last) {
      std::copy_n(std::initializer_list<std::int64_t>{h * w * c, 1, w * c, c}.begin(), 4, at);
    } else {
      std::copy_n(std::initializer_list<std::int64_t>{c * h * w, h * w, w, 1}.begin(), 4, at);
    }
  }
  __device__ std::int64_t offset(std::int64_t a, std::int64_t b, int c, int d) const {
    return a * at[0] + b * at[1] + c * at[2] + d * at[3];
  }
};

// x (N, C, H, W), weights (O, C / groups, kh, kw), y (N, O, P, Q)
struct Plan {
  std::int64_t n, channels, results;  // channels and results of one group
  WindowAxis rows, columns;
  Strides x, weights, y;
  std::int64_t count;  // elements of the result
  Divider d1, d2, d3;  // its inner extents, innermost last
};

// One element's coordinates in a tensor of four axes.
struct Place {
  std::int64_t a, b;
  int c, d;

  __device__ Place(const Plan& plan, std::int64_t element) {
    d = static_cast<int>(plan.d3.split(element));
    c = static_cast<int>(plan.d2.split(element));
    b = plan.d1.split(element);
    a = element;
  }
};

template <class T>
__device__ double as_double(T value) {
  return static_cast<double>(widen(value));
}

// x, weights → y
template <class T>
__global__ void __launch_bounds__(kThreads)
    forward(const __grid_constant__ Plan plan, const T* x, const T* weights, T* y) {
  const std::int64_t element = thread_number();
  if (element >= plan.count) return;
  const Place at(plan, element);
  const std::int64_t first = at.b / plan.results * plan.channels;
  double sum = 0;
  for (std::int64_t k = 0; k < plan.channels; ++k) {
    for (int i = 0; i < plan.rows.kernel; ++i) {
      const int h = plan.rows.under(at.c, i);
      if (h < 0) continue;
      for (int j = 0; j < plan.columns.kernel; ++j) {
        const int w = plan.columns.under(at.d, j);
        if (w < 0) continue;
        sum += as_double(x[plan.x.offset(at.a, first + k, h, w)]) *
               as_double(weights[plan.weights.offset(at.b, k, i, j)]);
      }
    }
  }
  y[plan.y.offset(at.a, at.b, at.c, at.d)] = narrow<T>(static_cast<Compute<T>>(sum));
}

// dy, weights → dx, overwritten
template <class T>
__global__ void __launch_bounds__(kThreads)
    gradient_data(const __grid_constant__ Plan plan, const T* dy, const T* weights, T* dx) {
  const std::int64_t element = thread_number();
  if (element >= plan.count) return;
  const Place at(plan, element);
  const std::int64_t k = at.b % plan.channels;
  const std::int64_t first = at.b / plan.channels * plan.results;
  double sum = 0;
  for (int i = 0; i < plan.rows.kernel; ++i) {
    const int p = plan.rows.position_of(at.c, i);
    if (p < 0) continue;
    for (int j = 0; j < plan.columns.kernel; ++j) {
      const int q = plan.columns.position_of(at.d, j);
      if (q < 0) continue;
      for (std::int64_t o = first; o < first + plan.results; ++o) {
        sum += as_double(dy[plan.y.offset(at.a, o, p, q)]) *
               as_double(weights[plan.weights.offset(o, k, i, j)]);
      }
    }
  }
  dx[plan.x.offset(at.a, at.b, at.c, at.d)] = narrow<T>(static_cast<Compute<T>>(sum));
}

// dy, x → dweights, overwritten. A block per weight.
template <class T>
__global__ void __launch_bounds__(kThreads)
    gradient_weights(const __grid_constant__ Plan plan, const __grid_constant__ Divider by_columns,
                     const __grid_constant__ Divider by_rows, const T* dy, const T* x,
                     T* dweights) {
  const Place at(plan, blockIdx.x);
  const std::int64_t channel = at.a / plan.results * plan.channels + at.b;
  const std::int64_t positions = plan.n * plan.rows.positions * plan.columns.positions;
  double sum = 0;
  for (std::int64_t k = threadIdx.x; k < positions; k += kThreads) {
    std::int64_t n = k;
    const int q = static_cast<int>(by_columns.split(n));
    const int p = static_cast<int>(by_rows.split(n));
    const int h = plan.rows.under(p, at.c);
    const int w = plan.columns.under(q, at.d);
    if (h < 0 || w < 0) continue;
    sum +=
        as_double(dy[plan.y.offset(n, at.a, p, q)]) * as_double(x[plan.x.offset(n, channel, h, w)]);
  }
  sum = combine<kThreads>(sum, Sum());
  if (threadIdx.x != 0) return;
  dweights[plan.weights.offset(at.a, at.b, at.c, at.d)] = narrow<T>(static_cast<Compute<T>>(sum));
}

template <class T>
class Convolution final : public NodeKernel {
 public:
  Convolution(const ir::Graph& graph, const ir::Node& node, const Context&)
      : NodeKernel(graph, node), op_(node.op) {
    const auto& a = std::get<ir::ConvolutionAttributes>(node.attributes);
    const ConvolutionShapes shapes(graph, node);
    plan_.n = shapes.x[0];
    plan_.channels = shapes.x[1] / a.groups;
    plan_.results = shapes.y[1] / a.groups;
    const bool channels_last = uses_tensor_cores(graph, node);
    const bool packed = uses_space_to_depth(graph, node);  // x and the weights are then plain
    plan_.x = Strides(shapes.x, channels_last && !packed);
    plan_.weights = Strides(shapes.weights, channels_last && !packed);
    plan_.y = Strides(shapes.y, channels_last);
    plan_.rows = WindowAxis(a.window, 0, shapes.x[2], shapes.y[2]);
    plan_.columns = WindowAxis(a.window, 1, shapes.x[3], shapes.y[3]);
    const Shape& result = graph.type(node.outputs[0]).shape;
    plan_.count = element_count(result);
    plan_.d1 = Divider(result[1]);
    plan_.d2 = Divider(result[2]);
    plan_.d3 = Divider(result[3]);
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (plan_.count == 0) return;
    const T* const first = in<T>(pointers, 0);
    const T* const second = in<T>(pointers, 1);
    T* const result = out<T>(pointers, 0);
    const unsigned blocks = blocks_for(plan_.count);
    if (op_ == ir::Op::convolution) {
      forward<T><<<blocks, kThreads, 0, stream>>>(plan_, first, second, result);
    } else if (op_ == ir::Op::convolution_gradient_data) {
      gradient_data<T><<<blocks, kThreads, 0, stream>>>(plan_, first, second, result);
    } else {
      gradient_weights<T><<<static_cast<unsigned>(plan_.count), kThreads, 0, stream>>>(
          plan_, Divider(plan_.columns.positions), Divider(plan_.rows.positions), first, second,
          result);
    }
    check_launch(ir::name(op_));
  }

 private:
  ir::Op op_;
  Plan plan_{};
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const auto& a = std::get<ir::ConvolutionAttributes>(node.attributes);
  if (!a.epilogue.empty()) return Support::no("an epilogue");
  const ConvolutionShapes shapes(graph, node);
  if (!window_fits(a.window, shapes.x, shapes.y)) return Support::no("an extent above 2^29");
  return supports_floating_or_half(graph, node);
}

// One thread per element of the target. A larger target gets zeros around the source; a smaller one
// crops it. (planes, H, W)
template <class T>
__global__ void __launch_bounds__(kThreads)
    move_frame(std::int64_t count, const __grid_constant__ Divider by_columns,
               const __grid_constant__ Divider by_rows, int target_first_row,
               int target_first_column, int rows, int columns, const T* from, T* to) {
  const std::int64_t element = thread_number();
  if (element >= count) return;
  std::int64_t plane = element;
  const int w = static_cast<int>(by_columns.split(plane)) - target_first_column;
  const int h = static_cast<int>(by_rows.split(plane)) - target_first_row;
  const bool inside = h >= 0 && h < rows && w >= 0 && w < columns;
  to[element] = inside ? from[(plane * rows + h) * columns + w] : T(0);
}

}  // namespace

ConvolutionShapes::ConvolutionShapes(const ir::Graph& graph, const ir::Node& node) {
  const Shape& result = graph.type(node.outputs[0]).shape;
  const Shape& first = graph.type(node.inputs[0]).shape;
  const Shape& second = graph.type(node.inputs[1]).shape;
  if (node.op == ir::Op::convolution) {
    x = first, weights = second, y = result;
  } else if (node.op == ir::Op::convolution_gradient_data) {
    y = first, weights = second, x = result;
  } else {
    y = first, x = second, weights = result;
  }
}

double products_of(const ir::Node& node, const ConvolutionShapes& shapes) {
  const ir::Window& w = std::get<ir::ConvolutionAttributes>(node.attributes).window;
  return static_cast<double>(element_count(shapes.y)) *
         static_cast<double>(shapes.weights[1] * w.kernel[0] * w.kernel[1]);
}

void enqueue_frame(std::size_t element_bytes, const Frame& frame, const void* from, void* to,
                   cudaStream_t stream) {
  const std::int64_t count = frame.planes * frame.to_rows * frame.to_columns;
  if (count == 0) return;
  with_unit(element_bytes, [&](auto sample) {
    using T = decltype(sample);
    if constexpr (sizeof(T) <= 8) {
      move_frame<T><<<blocks_for(count), kThreads, 0, stream>>>(
          count, Divider(frame.to_columns), Divider(frame.to_rows), static_cast<int>(frame.top),
          static_cast<int>(frame.left), static_cast<int>(frame.from_rows),
          static_cast<int>(frame.from_columns), static_cast<const T*>(from), static_cast<T*>(to));
    }
  });
  check_launch("padding");
}

std::vector<KernelEntry> convolution_entries() {
  return {{ir::Op::convolution, supports, make_direct_convolution, convolution_layouts, nullptr},
          {ir::Op::convolution_gradient_data, supports, make_direct_convolution,
           convolution_layouts, nullptr},
          {ir::Op::convolution_gradient_weights, supports, make_direct_convolution,
           convolution_layouts, nullptr}};
}

std::unique_ptr<Kernel> make_direct_convolution(const ir::Graph& graph, const ir::Node& node,
                                                const Context& context) {
  return make_floating_or_half<Convolution>(graph, node, context);
}

}  // namespace traingraph::cuda
