// Kernels that rewrite a convolution of few channels by space-to-depth.
#include "backends/cuda/convolution/space_to_depth.h"

#include "backends/cuda/convolution/layouts.h"
#include "backends/cuda/device/device.h"

namespace traingraph::cuda {
namespace {

// Limits of C': for the elements of one stride, and for all taps.
constexpr std::int64_t kMostChannels = 16, kMostUnfolded = 32;

// The plan as 32-bit kernel arguments.
struct Plan {
  int c, h, w, o, kh, kw;  // of the plain operands
  int cs, rows, columns;   // C', and H', W' or kh', kw'
  int stride, taps_down, taps_across, top, left;
  std::int64_t count;  // threads
  Divider by_columns, by_rows;

  Plan(const SpaceToDepth& from, const Shape& packed, std::int64_t threads)
      : c(static_cast<int>(from.plain[1])),
        h(static_cast<int>(from.plain[2])),
        w(static_cast<int>(from.plain[3])),
        o(static_cast<int>(from.kernel[0])),
        kh(static_cast<int>(from.kernel[2])),
        kw(static_cast<int>(from.kernel[3])),
        cs(static_cast<int>(packed[1])),
        rows(static_cast<int>(packed[2])),
        columns(static_cast<int>(packed[3])),
        stride(static_cast<int>(from.stride)),
        taps_down(static_cast<int>(from.taps[0])),
        taps_across(static_cast<int>(from.taps[1])),
        top(static_cast<int>(from.top)),
        left(static_cast<int>(from.left)),
        count(threads),
        by_columns(packed[3]),
        by_rows(packed[2]) {}
};

// The tap and the channel that channel k of a packed element holds.
struct Tap {
  int channel, row, column;

  __device__ Tap(const Plan& plan, int k)
      : channel(k % plan.c),
        row(k / plan.c / plan.taps_across),
        column(k / plan.c % plan.taps_across) {}
};

// The source of one packed channel, relative to the channel-0 element at the position.
struct Source {
  int offset, row, column;
};

constexpr int kNowhere = -(1 << 30);  // a row outside every image

// Elements of 4 bytes are float32 operands of TF32 products. They are rounded to the nearest TF32
// value, because tensor cores truncate.
__device__ std::uint16_t as_operand(std::uint16_t bits) { return bits; }
__device__ std::uint32_t as_operand(std::uint32_t bits) {
  constexpr std::uint32_t kExponent = 0x7f800000u, kHalf = 0x1000u, kKept = ~0x1fffu;
  return (bits & kExponent) == kExponent ? bits : (bits + kHalf) & kKept;
}

// One thread per 16 bytes, so that neighbouring threads write neighbouring addresses.
template <class T>
__global__ void __launch_bounds__(kThreads)
    pack_source(const __grid_constant__ Plan plan, const __grid_constant__ Divider by_packs,
                const T* x, T* to) {
  constexpr int kPack = Pack<T>::kElements;
  __shared__ Source sources[kMostUnfolded];
  const int channel = static_cast<int>(threadIdx.x);
  if (channel < plan.cs) {
    const Tap tap(plan, channel);
    sources[channel] = {(tap.channel * plan.h + tap.row) * plan.w + tap.column,
                        tap.row < plan.taps_down ? tap.row : kNowhere, tap.column};
  }
  __syncthreads();
  const std::int64_t number = thread_number();
  if (number >= plan.count) return;
  std::int64_t n = number;
  const int first = static_cast<int>(by_packs.split(n)) * kPack;
  const int first_column = static_cast<int>(plan.by_columns.split(n)) * plan.stride - plan.left;
  const int first_row = static_cast<int>(plan.by_rows.split(n)) * plan.stride - plan.top;
  const T* const from = x + (n * plan.c * plan.h + first_row) * plan.w + first_column;
  Pack<T> pack = {};
#pragma unroll
  for (int v = 0; v < kPack; ++v) {
    const Source source = sources[first + v];
    const int row = first_row + source.row, column = first_column + source.column;
    const bool inside = row >= 0 && row < plan.h && column >= 0 && column < plan.w;
    if (inside) pack.element[v] = as_operand(from[source.offset]);
  }
  store(to + number * kPack, pack);
}

// One thread per element of the packed weights (O, kh', kw', C'). In the reverse direction,
// elements without a plain weight write nothing.
template <class T, bool kBack>
__global__ void __launch_bounds__(kThreads)
    pack_weights(const __grid_constant__ Plan plan, const T* from, T* to) {
  const std::int64_t number = thread_number();
  if (number >= plan.count) return;
  const Tap tap(plan, static_cast<int>(number % plan.cs));
  std::int64_t o = number / plan.cs;
  const int column = static_cast<int>(plan.by_columns.split(o)) * plan.stride + tap.column;
  const int row = static_cast<int>(plan.by_rows.split(o)) * plan.stride + tap.row;
  const bool there = tap.row < plan.taps_down && row < plan.kh && column < plan.kw;
  const std::int64_t at = ((o * plan.c + tap.channel) * plan.kh + row) * plan.kw + column;
  if constexpr (kBack) {
    if (there) to[at] = from[number];
  } else {
    to[number] = there ? as_operand(from[at]) : T(0);
  }
}

template <class F>
void with_word(std::size_t bytes, F&& f) {
  if (bytes == 2) {
    f(std::uint16_t{});
  } else {
    f(std::uint32_t{});
  }
}

// Whether all taps become channels.
bool unfolds(const ir::Window& w, std::int64_t channels) {
  return channels * w.kernel[0] * w.kernel[1] <= kMostUnfolded;
}

}  // namespace

bool uses_space_to_depth(const ir::Graph& graph, const ir::Node& node) {
  if (node.op == ir::Op::convolution_gradient_data || !uses_tensor_cores(graph, node)) return false;
  const auto& a = std::get<ir::ConvolutionAttributes>(node.attributes);
  const ir::Window& w = a.window;
  const std::int64_t s = w.stride[0];
  const std::int64_t channels = ConvolutionShapes(graph, node).x[1];
  return a.groups == 1 && w.stride[1] == s && w.dilation[0] == 1 && w.dilation[1] == 1 &&
         channels < 8 && (unfolds(w, channels) || channels * s * s <= kMostChannels);
}

SpaceToDepth space_to_depth(const ir::Graph& graph, const ir::Node& node) {
  const ir::Window& w = std::get<ir::ConvolutionAttributes>(node.attributes).window;
  const ConvolutionShapes shapes(graph, node);
  SpaceToDepth plan;
  plan.plain = shapes.x;
  plan.kernel = shapes.weights;
  plan.stride = w.stride[0];
  plan.top = w.padding_before[0];
  plan.left = w.padding_before[1];
  const std::int64_t at_once = ir::is_half(graph.type(node.inputs[0]).data_type) ? 8 : 4;
  std::int64_t rows = 1, columns = 1;  // of the remaining taps
  if (unfolds(w, shapes.x[1])) {
    std::copy(w.kernel, w.kernel + 2, plan.taps);
  } else {
    std::fill(plan.taps, plan.taps + 2, plan.stride);
    rows = (shapes.weights[2] - 1) / plan.stride + 1;
    columns = (shapes.weights[3] - 1) / plan.stride + 1;
  }
  const std::int64_t channels = shapes.x[1] * plan.taps[0] * plan.taps[1];
  const std::int64_t packed = (channels + at_once - 1) / at_once * at_once;
  plan.source = {shapes.x[0], packed, shapes.y[2] + rows - 1, shapes.y[3] + columns - 1};
  plan.weights = {shapes.weights[0], packed, rows, columns};
  return plan;
}

void enqueue_source(const SpaceToDepth& plan, std::size_t element_bytes, const void* x, void* to,
                    cudaStream_t stream) {
  with_word(element_bytes, [&](auto sample) {
    using T = decltype(sample);
    constexpr int kPack = Pack<T>::kElements;
    const Plan arguments(plan, plan.source, element_count(plan.source) / kPack);
    pack_source<T><<<blocks_for(arguments.count), kThreads, 0, stream>>>(
        arguments, Divider(plan.source[1] / kPack), static_cast<const T*>(x), static_cast<T*>(to));
  });
  check_launch("convolution, space-to-depth of the source");
}

void enqueue_weights(const SpaceToDepth& plan, std::size_t element_bytes, const void* weights,
                     void* to, cudaStream_t stream) {
  const Plan arguments(plan, plan.weights, element_count(plan.weights));
  with_word(element_bytes, [&](auto sample) {
    using T = decltype(sample);
    pack_weights<T, false><<<blocks_for(arguments.count), kThreads, 0, stream>>>(
        arguments, static_cast<const T*>(weights), static_cast<T*>(to));
  });
  check_launch("convolution, space-to-depth of the weights");
}

void enqueue_weights_back(const SpaceToDepth& plan, std::size_t element_bytes, const void* from,
                          void* weights, cudaStream_t stream) {
  const Plan arguments(plan, plan.weights, element_count(plan.weights));
  with_word(element_bytes, [&](auto sample) {
    using T = decltype(sample);
    pack_weights<T, true><<<blocks_for(arguments.count), kThreads, 0, stream>>>(
        arguments, static_cast<const T*>(from), static_cast<T*>(weights));
  });
  check_launch("convolution, space-to-depth of the weights");
}

}  // namespace traingraph::cuda
