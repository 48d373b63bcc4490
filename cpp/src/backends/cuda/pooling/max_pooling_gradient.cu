// The gradient of max pooling over windows of 2 x 2 and 3 x 3 with stride 2, the channel innermost.
// A thread owns 2 x 2 elements of dx, a pack of channels each, which are covered by the same
// windows. So it reads each window once, where a thread per element would read up to four.
#include "backends/cuda/convolution/layouts.h"
#include "backends/cuda/device/storage.h"
#include "backends/cuda/device/window.h"
#include "backends/cuda/kernel/node_kernel.h"

namespace traingraph::cuda {
namespace {

constexpr int kStride = 2;

// dy and index (N, p, q, c) → dx (N, h, w, c)
struct Plan {
  int h, w, p, q, top, left;
  std::int64_t c, count;                  // channels; threads
  Divider by_packs, by_columns, by_rows;  // packs of channels, and squares of an image
};

// Squares are aligned with windows: square a has elements 2 a - padding and the next one. kReach
// windows cover it in each axis, and window a is the last of them.
template <class S, int kPack, int kKernel>
__global__ void __launch_bounds__(kThreads)
    spread_maxima(const __grid_constant__ Plan plan, const S* dy, const std::uint8_t* index,
                  S* dx) {
  constexpr int kReach = (kKernel - 1) / kStride + 1;
  constexpr std::uint8_t kNoTap = 255;
  std::int64_t n = thread_number();
  if (n >= plan.count) return;
  const std::int64_t channel = plan.by_packs.split(n) * kPack;
  const int across = static_cast<int>(plan.by_columns.split(n));
  const int down = static_cast<int>(plan.by_rows.split(n));
  Pack<S, kPack> gradients[kReach][kReach] = {};
  Pack<std::uint8_t, kPack> taps[kReach][kReach];
#pragma unroll
  for (int i = 0; i < kReach; ++i) {
#pragma unroll
    for (int j = 0; j < kReach; ++j) {
      const int row = down - (kReach - 1) + i, column = across - (kReach - 1) + j;
      const bool there = row >= 0 && row < plan.p && column >= 0 && column < plan.q;
      const std::int64_t at = ((n * plan.p + row) * plan.q + column) * plan.c + channel;
#pragma unroll
      for (int v = 0; v < kPack; ++v) taps[i][j].element[v] = kNoTap;
      if (there) {
        gradients[i][j] = load<kPack>(dy + at);
        taps[i][j] = load<kPack>(index + at);
      }
    }
  }
#pragma unroll
  for (int y = 0; y < kStride; ++y) {
#pragma unroll
    for (int x = 0; x < kStride; ++x) {
      const int row = down * kStride - plan.top + y, column = across * kStride - plan.left + x;
      if (row < 0 || row >= plan.h || column < 0 || column >= plan.w) continue;
      Pack<Compute<S>, kPack> sum = {};
#pragma unroll
      for (int i = 0; i < kReach; ++i) {
#pragma unroll
        for (int j = 0; j < kReach; ++j) {
          const int of_row = kStride * (kReach - 1 - i) + y;
          const int of_column = kStride * (kReach - 1 - j) + x;
          if (of_row >= kKernel || of_column >= kKernel) continue;
          const auto given = widen(gradients[i][j]);
#pragma unroll
          for (int v = 0; v < kPack; ++v) {
            if (taps[i][j].element[v] == of_row * kKernel + of_column) {
              sum.element[v] += given.element[v];
            }
          }
        }
      }
      store(dx + ((n * plan.h + row) * plan.w + column) * plan.c + channel, narrow<S>(sum));
    }
  }
}

template <class S>
class MaxPoolingGradient final : public NodeKernel {
 public:
  MaxPoolingGradient(const ir::Graph& graph, const ir::Node& node, const Context&)
      : NodeKernel(graph, node) {
    const ir::Window& w = std::get<ir::PoolingAttributes>(node.attributes).window;
    const Shape& source = graph.type(node.outputs[0]).shape;
    const Shape& positions = graph.type(node.inputs[0]).shape;
    kernel_ = w.kernel[0];
    plan_.h = static_cast<int>(source[2]);
    plan_.w = static_cast<int>(source[3]);
    plan_.p = static_cast<int>(positions[2]);
    plan_.q = static_cast<int>(positions[3]);
    plan_.top = static_cast<int>(w.padding_before[0]);
    plan_.left = static_cast<int>(w.padding_before[1]);
    plan_.c = source[1];
    const std::int64_t down = (plan_.h - 1 + plan_.top) / kStride + 1;
    const std::int64_t across = (plan_.w - 1 + plan_.left) / kStride + 1;
    plan_.by_packs = Divider(plan_.c / kPack);
    plan_.by_columns = Divider(across);
    plan_.by_rows = Divider(down);
    plan_.count = source[0] * down * across * (plan_.c / kPack);
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (plan_.count == 0) return;
    auto* const kernel = kernel_ == 2 ? spread_maxima<S, kPack, 2> : spread_maxima<S, kPack, 3>;
    kernel<<<blocks_for(plan_.count), kThreads, 0, stream>>>(
        plan_, in<S>(pointers, 0), in<std::uint8_t>(pointers, 1), out<S>(pointers, 0));
    check_launch("pooling_gradient, maxima");
  }

 private:
  static constexpr int kPack = Pack<S>::kElements;

  std::int64_t kernel_;
  Plan plan_{};
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const auto& a = std::get<ir::PoolingAttributes>(node.attributes);
  const ir::Window& w = a.window;
  if (a.kind != ir::PoolingKind::max || !both_are(w.stride, kStride) || !both_are(w.dilation, 1) ||
      !(both_are(w.kernel, 2) || both_are(w.kernel, 3))) {
    return Support::no("maxima: windows of 2 x 2 or 3 x 3 with strides of 2");
  }
  const ir::Type& dy = graph.type(node.inputs[0]);
  const Shape& source = graph.type(node.outputs[0]).shape;
  const auto pack = static_cast<std::int64_t>(16 / element_bytes(dy.data_type));
  if (normalization_layouts(graph, node).outputs[0].plain() || source[1] % pack != 0) {
    return Support::no("maxima: the channel innermost, in packs of 16 bytes");
  }
  if (!window_fits(w, source, dy.shape)) return Support::no("an extent above 2^29");
  return supports_floating_or_half(graph, node);
}

}  // namespace

std::vector<KernelEntry> max_pooling_gradient_entries() {
  return {{ir::Op::pooling_gradient, supports, make_floating_or_half<MaxPoolingGradient>,
           normalization_layouts, nullptr}};
}

}  // namespace traingraph::cuda
