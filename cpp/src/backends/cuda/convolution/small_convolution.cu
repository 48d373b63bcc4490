// Gradients of convolutions that are too small for a library's engines. A thread keeps the sums of
// a whole kernel in registers, so that each load serves several of them. Sums are split by shape
// and added in a fixed order, in exact float32.
#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/convolution/layouts.h"
#include "backends/cuda/device/window.h"
#include "backends/cuda/kernel/node_kernel.h"

namespace traingraph::cuda {
namespace {

constexpr std::int64_t kMostProducts = std::int64_t{1} << 30, kBlocksWanted = 512;

// x (N, C, H, W), weights (O, C / groups, k, k), y (N, O, P, Q)
struct Plan {
  int n, c, o, channels, results;  // channels and results of one group
  WindowAxis rows, columns;
  std::int64_t positions;  // N P Q, or N H W
  std::int64_t length;     // positions of one part
  int parts, tiles;        // tiles of kResults results, or of kChannels channels, per group
  Divider by_rows, by_columns;
};

// --- gradient_weights ----------------------------------------------------------------------------

// dy, x → sums (parts, O, C / groups, k, k). Grid: (channel of the group, tile of results, part).
template <int kSize, int kResults>
__global__ void __launch_bounds__(kThreads)
    sum_weights(const __grid_constant__ Plan plan, const float* dy, const float* x, float* sums) {
  const int group = static_cast<int>(blockIdx.y) / plan.tiles;
  const int first = group * plan.results + static_cast<int>(blockIdx.y) % plan.tiles * kResults;
  const int there = min(kResults, (group + 1) * plan.results - first);
  const int channel = group * plan.channels + static_cast<int>(blockIdx.x);
  const std::int64_t start = blockIdx.z * plan.length;
  const std::int64_t end = min(start + plan.length, plan.positions);
  const int plane = plan.rows.source * plan.columns.source;
  const int result_plane = plan.rows.positions * plan.columns.positions;
  float sum[kResults][kSize][kSize] = {};
  for (std::int64_t k = start + threadIdx.x; k < end; k += kThreads) {
    std::int64_t n = k;
    const int q = static_cast<int>(plan.by_columns.split(n));
    const int p = static_cast<int>(plan.by_rows.split(n));
    const float* const source = x + (n * plan.c + channel) * plane;
    const float* const from =
        dy + (n * plan.o + first) * result_plane + p * plan.columns.positions + q;
    float slope[kResults];
#pragma unroll
    for (int r = 0; r < kResults; ++r) {
      slope[r] = r < there ? from[static_cast<std::int64_t>(r) * result_plane] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      const int h = plan.rows.under(p, i);
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        const int w = plan.columns.under(q, j);
        const float value = h >= 0 && w >= 0 ? source[h * plan.columns.source + w] : 0.0f;
#pragma unroll
        for (int r = 0; r < kResults; ++r) sum[r][i][j] += slope[r] * value;
      }
    }
  }
  __shared__ float warps[kThreads / 32][kResults * kSize * kSize];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int r = 0; r < kResults; ++r) {
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        const float all = combine<32>(sum[r][i][j], Sum());
        if (lane == 0) warps[warp][(r * kSize + i) * kSize + j] = all;
      }
    }
  }
  __syncthreads();
  const int taps = kSize * kSize;
  const std::int64_t weights = static_cast<std::int64_t>(plan.o) * plan.channels * taps;
  for (int k = static_cast<int>(threadIdx.x); k < there * taps; k += kThreads) {
    float all = 0;
#pragma unroll
    for (int w = 0; w < kThreads / 32; ++w) all += warps[w][k];
    const std::int64_t at =
        (static_cast<std::int64_t>(first + k / taps) * plan.channels + blockIdx.x) * taps +
        k % taps;
    sums[blockIdx.z * weights + at] = all;
  }
}

__global__ void __launch_bounds__(kThreads)
    add_parts(std::int64_t count, int parts, const float* sums, float* dweights) {
  const std::int64_t element = thread_number();
  if (element >= count) return;
  double all = 0;
  for (int part = 0; part < parts; ++part) all += static_cast<double>(sums[part * count + element]);
  dweights[element] = static_cast<float>(all);
}

class SmallGradientWeights final : public NodeKernel {
 public:
  SmallGradientWeights(const ir::Graph& graph, const ir::Node& node, const Plan& plan)
      : NodeKernel(graph, node), plan_(plan), count_(graph.type(node.outputs[0]).elements()) {
    const int size = plan_.rows.kernel;
    kernel_ = size == 1 ? sum_weights<1, kWide>
                        : (size == 3 ? sum_weights<3, kMiddle> : sum_weights<5, kNarrow>);
    const int results = size == 1 ? kWide : (size == 3 ? kMiddle : kNarrow);
    plan_.tiles = (plan_.results + results - 1) / results;
    const int groups = plan_.c / plan_.channels;
    blocks_ =
        dim3(static_cast<unsigned>(plan_.channels), static_cast<unsigned>(plan_.tiles * groups));
    const std::int64_t blocks = static_cast<std::int64_t>(blocks_.x) * blocks_.y;
    const std::int64_t most = std::max<std::int64_t>(1, plan_.positions / (4 * kThreads));
    const std::int64_t wanted = (kBlocksWanted + blocks - 1) / blocks;
    const std::int64_t parts = std::min(most, wanted);
    plan_.length = (plan_.positions + parts - 1) / parts;
    plan_.parts = static_cast<int>((plan_.positions + plan_.length - 1) / plan_.length);
    blocks_.z = static_cast<unsigned>(plan_.parts);
  }

  std::size_t workspace_bytes() const override {
    return plan_.parts == 1 ? 0 : static_cast<std::size_t>(count_ * plan_.parts) * sizeof(float);
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    float* const dweights = out<float>(pointers, 0);
    float* const sums = plan_.parts == 1 ? dweights : workspace<float>(pointers);
    kernel_<<<blocks_, kThreads, 0, stream>>>(plan_, in<float>(pointers, 0), in<float>(pointers, 1),
                                              sums);
    check_launch("convolution_gradient_weights, hand-written kernel");
    if (plan_.parts == 1) return;
    add_parts<<<blocks_for(count_), kThreads, 0, stream>>>(count_, plan_.parts, sums, dweights);
    check_launch("convolution_gradient_weights, second stage");
  }

 private:
  // Results per thread for kernels of 1, 3 and 5.
  static constexpr int kWide = 16, kMiddle = 8, kNarrow = 2;
  Plan plan_;
  std::int64_t count_;
  dim3 blocks_;
  void (*kernel_)(Plan, const float*, const float*, float*) = nullptr;
};

// --- gradient_data, stride 1 ---------------------------------------------------------------------

// dy, weights → dx, overwritten. Grid: (positions of x, tile of channels). The weights of a tile
// and of kStage results at a time are in shared memory. kParts threads share a position, and their
// sums are added in order.
constexpr int kParts = 4;

template <int kSize, int kChannels>
__global__ void __launch_bounds__(kThreads)
    gather_data(const __grid_constant__ Plan plan, const float* dy, const float* weights,
                float* dx) {
  constexpr int kStage = 16, kTaps = kSize * kSize, kPositions = kThreads / kParts;
  __shared__ float staged[kStage][kTaps][kChannels];
  const int part = static_cast<int>(threadIdx.x) / kPositions;
  const int place = static_cast<int>(threadIdx.x) % kPositions;
  const int group = static_cast<int>(blockIdx.y) / plan.tiles;
  const int first = static_cast<int>(blockIdx.y) % plan.tiles * kChannels;  // within the group
  const int there = min(kChannels, plan.channels - first);
  const int result_plane = plan.rows.positions * plan.columns.positions;
  std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kPositions + place;
  const bool inside = n < plan.positions;
  const int w = static_cast<int>(plan.by_columns.split(n));
  const int h = static_cast<int>(plan.by_rows.split(n));
  float sum[kChannels] = {};
  for (int start = 0; start < plan.results; start += kStage) {
    __syncthreads();
    for (int k = static_cast<int>(threadIdx.x); k < kStage * kTaps * kChannels; k += kThreads) {
      const int c = k / kTaps % kChannels, tap = k % kTaps, r = start + k / (kTaps * kChannels);
      const std::int64_t o = static_cast<std::int64_t>(group) * plan.results + r;
      staged[r - start][tap][c] = c < there && r < plan.results
                                      ? weights[(o * plan.channels + first + c) * kTaps + tap]
                                      : 0.0f;
    }
    __syncthreads();
    if (!inside) continue;
    const int end = min(kStage, plan.results - start);
    const float* from = dy + (n * plan.o + group * plan.results + start + part) * result_plane;
    for (int r = part; r < end; r += kParts, from += kParts * result_plane) {
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        const int p = h + plan.rows.padding - i;
        const bool row = p >= 0 && p < plan.rows.positions;
#pragma unroll
        for (int j = 0; j < kSize; ++j) {
          const int q = w + plan.columns.padding - j;
          const bool meets = row && q >= 0 && q < plan.columns.positions;
          const float slope = meets ? from[p * plan.columns.positions + q] : 0.0f;
#pragma unroll
          for (int c = 0; c < kChannels; ++c) sum[c] += slope * staged[r][i * kSize + j][c];
        }
      }
    }
  }
  __shared__ float sums[kParts][kChannels][kPositions];
#pragma unroll
  for (int c = 0; c < kChannels; ++c) sums[part][c][place] = sum[c];
  __syncthreads();
  if (!inside || part > 0) return;
  const int plane = plan.rows.source * plan.columns.source;
  float* const to =
      dx + (n * plan.c + group * plan.channels + first) * plane + h * plan.columns.source + w;
#pragma unroll
  for (int c = 0; c < kChannels; ++c) {
    if (c >= there) break;
#pragma unroll
    for (int other = 1; other < kParts; ++other) sum[c] += sums[other][c][place];
    to[static_cast<std::int64_t>(c) * plane] = sum[c];
  }
}

class SmallGradientData final : public NodeKernel {
 public:
  SmallGradientData(const ir::Graph& graph, const ir::Node& node, const Plan& plan)
      : NodeKernel(graph, node), plan_(plan) {
    constexpr int kChannels = 4;
    const int size = plan_.rows.kernel;
    kernel_ = size == 1 ? gather_data<1, kChannels>
                        : (size == 3 ? gather_data<3, kChannels> : gather_data<5, kChannels>);
    plan_.tiles = (plan_.channels + kChannels - 1) / kChannels;
    blocks_ = dim3(blocks_for(plan_.positions, kThreads / kParts),
                   static_cast<unsigned>(plan_.tiles * (plan_.c / plan_.channels)));
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    kernel_<<<blocks_, kThreads, 0, stream>>>(plan_, in<float>(pointers, 0), in<float>(pointers, 1),
                                              out<float>(pointers, 0));
    check_launch("convolution_gradient_data, hand-written kernel");
  }

 private:
  Plan plan_;
  dim3 blocks_;
  void (*kernel_)(Plan, const float*, const float*, float*) = nullptr;
};

Plan plan_of(const ir::Graph& graph, const ir::Node& node) {
  const auto& a = std::get<ir::ConvolutionAttributes>(node.attributes);
  const ConvolutionShapes shapes(graph, node);
  Plan plan{};
  plan.n = static_cast<int>(shapes.x[0]);
  plan.c = static_cast<int>(shapes.x[1]);
  plan.o = static_cast<int>(shapes.y[1]);
  plan.channels = plan.c / static_cast<int>(a.groups);
  plan.results = plan.o / static_cast<int>(a.groups);
  plan.rows = WindowAxis(a.window, 0, shapes.x[2], shapes.y[2]);
  plan.columns = WindowAxis(a.window, 1, shapes.x[3], shapes.y[3]);
  const Shape& walked = node.op == ir::Op::convolution_gradient_data ? shapes.x : shapes.y;
  plan.positions = walked[0] * walked[2] * walked[3];
  plan.by_rows = Divider(walked[2]);
  plan.by_columns = Divider(walked[3]);
  return plan;
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (compute_type(graph, node) != DataType::kFloat32)
    return Support::no("hand-written kernel: float32");
  if (uses_tensor_cores(graph, node))
    return Support::no("hand-written kernel: tensor cores are faster");
  const auto& a = std::get<ir::ConvolutionAttributes>(node.attributes);
  if (!a.epilogue.empty()) return Support::no("hand-written kernel: an epilogue");
  const ir::Window& w = a.window;
  const std::int64_t size = w.kernel[0];
  if (w.kernel[1] != size || (size != 1 && size != 3 && size != 5)) {
    return Support::no("hand-written kernel: kernels of 1, 3 and 5");
  }
  const bool data = node.op == ir::Op::convolution_gradient_data;
  const bool dense =
      w.stride[0] == 1 && w.stride[1] == 1 && w.dilation[0] == 1 && w.dilation[1] == 1;
  if (data && !dense) return Support::no("hand-written kernel: strides and dilations of 1");
  const ConvolutionShapes shapes(graph, node);
  if (!window_fits(w, shapes.x, shapes.y))
    return Support::no("hand-written kernel: an extent above 2^29");
  const double products = products_of(node, shapes);
  const bool empty = element_count(shapes.x) == 0 || element_count(shapes.y) == 0;
  // The library's engines are faster for more channels.
  const std::int64_t results = shapes.weights[0] / a.groups;
  if (data ? results > 64 : results * shapes.weights[1] > 2048) {
    return Support::no("hand-written kernel: few channels");
  }
  if (empty || products > static_cast<double>(kMostProducts) || shapes.weights[0] > 65535 ||
      shapes.x[1] > 65535) {
    return Support::no("hand-written kernel: small convolutions");
  }
  return {};
}

template <class K>
std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context&) {
  return std::make_unique<K>(graph, node, plan_of(graph, node));
}

}  // namespace

std::vector<KernelEntry> small_convolution_entries() {
  return {{ir::Op::convolution_gradient_data, supports, make<SmallGradientData>, nullptr, nullptr},
          {ir::Op::convolution_gradient_weights, supports, make<SmallGradientWeights>, nullptr,
           nullptr}};
}

}  // namespace traingraph::cuda
