// Convolutions of few images, and the gradients of their sources, as direct float32 sums. cuDNN's
// engines take 10 and 18 µs for one image of 32 and 64 channels on an H200, as they give a handful
// of blocks the whole sum of an element. Here kSlices threads share an element; their sums are
// added in a fixed order.
#include <algorithm>

#include "backends/cuda/convolution/convolution.h"
#include "backends/cuda/convolution/layouts.h"
#include "backends/cuda/device/tensor_cores.h"
#include "backends/cuda/device/window.h"
#include "backends/cuda/kernel/check.h"
#include "backends/cuda/kernel/node_kernel.h"

namespace traingraph::cuda {
namespace {

constexpr int kPositions = 64;  // of one image, that a block computes
constexpr int kResults = 4;     // channels that a block, and each of its threads, computes
constexpr int kSlices = 8;      // threads that share an element
constexpr int kBlock = kPositions * kSlices;
constexpr double kMostProducts = 1 << 24;  // beyond these cuDNN's engines are as fast
constexpr std::size_t kMostShared = 48 << 10;

// Both ops are a correlation of planes with weights: x (N, C, h, w) → y (N, O, p, q). The gradient
// of a source correlates dy with the flipped weights.
struct Plan {
  int channels, results;
  int h, w, p, q;
  int top, left;              // padding
  int of_result, of_channel;  // floats from weight to weight
  bool flips;
  int rows, pitch;  // of the part of a plane that a block reads
  int chunk;        // channels in shared memory at a time
  Divider by_rows, by_pitch, by_taps, by_q, by_tiles, by_groups;

  __host__ __device__ int plane() const { return rows * pitch; }
};

template <int kKernel>
__global__ void __launch_bounds__(kBlock)
    correlate(const __grid_constant__ Plan plan, const float* x, const float* weights, float* y) {
  constexpr int kTaps = kKernel * kKernel;
  extern __shared__ __align__(16) float memory[];
  __shared__ float4 sums[kSlices][kPositions];
  auto* const of_weights = reinterpret_cast<float4*>(memory);  // (chunk, taps), kResults each
  float* const of_x = memory + plan.chunk * kTaps * kResults;  // (chunk, rows, pitch)
  auto n = blockIdx.x;
  const int first_result = static_cast<int>(plan.by_groups.split_narrow(n)) * kResults;
  const int first = static_cast<int>(plan.by_tiles.split_narrow(n)) * kPositions;
  const int thread = static_cast<int>(threadIdx.x);
  const int own = thread % kPositions, slice = thread / kPositions;
  const auto row_of = [&](int position) {
    return static_cast<int>(plan.by_q.divide_narrow(static_cast<std::uint32_t>(position)));
  };
  const int positions = plan.p * plan.q, first_row = row_of(first);
  const int position = min(first + own, positions - 1);
  const int row = row_of(position), column = position - row * plan.q;
  const float* const image = x + static_cast<std::int64_t>(n) * plan.channels * plan.h * plan.w;
  float4 sum = {};
  for (int channel = 0; channel < plan.channels; channel += plan.chunk) {
    const int chunk = min(plan.chunk, plan.channels - channel);
    if (channel > 0) __syncthreads();
    for (int k = thread; k < chunk * kTaps * kResults; k += kBlock) {
      auto at = static_cast<std::uint32_t>(k);
      const int tap = static_cast<int>(plan.by_taps.split_narrow(at));
      const int result = static_cast<int>(at % kResults), c = static_cast<int>(at / kResults);
      const bool there = first_result + result < plan.results;
      copy_float_async(memory + (c * kTaps + tap) * kResults + result,
                       weights + (first_result + result) * plan.of_result +
                           (channel + c) * plan.of_channel + (plan.flips ? kTaps - 1 - tap : tap),
                       there);
    }
    for (int k = thread; k < chunk * plan.plane(); k += kBlock) {
      auto at = static_cast<std::uint32_t>(k);
      const int right = static_cast<int>(plan.by_pitch.split_narrow(at)) - plan.left;
      auto c = at;
      const int down = static_cast<int>(plan.by_rows.split_narrow(c)) + first_row - plan.top;
      const bool there = static_cast<unsigned>(down) < static_cast<unsigned>(plan.h) &&
                         static_cast<unsigned>(right) < static_cast<unsigned>(plan.w);
      copy_float_async(of_x + k,
                       image + ((channel + static_cast<int>(c)) * plan.h + down) * plan.w + right,
                       there);
    }
    wait_for_async_copies();
    __syncthreads();
    for (int c = slice; c < chunk; c += kSlices) {
      const float* const from = of_x + c * plan.plane() + (row - first_row) * plan.pitch + column;
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) {
        const float value = from[tap / kKernel * plan.pitch + tap % kKernel];
        const float4 weight = of_weights[c * kTaps + tap];
        sum.x += value * weight.x, sum.y += value * weight.y;
        sum.z += value * weight.z, sum.w += value * weight.w;
      }
    }
  }
  sums[slice][own] = sum;
  __syncthreads();
  const int result = first_result + slice;
  if (slice >= kResults || result >= plan.results || first + own >= positions) return;
  float total = 0;
  for (auto& other : sums) total += reinterpret_cast<const float*>(&other[own])[slice];
  y[(static_cast<std::int64_t>(n) * plan.results + result) * positions + position] = total;
}

// The correlation of a node, or one without a chunk if a part of its planes is too large.
Plan plan_of(const ir::Node& node, const ConvolutionShapes& shapes) {
  const ir::Window& window = std::get<ir::ConvolutionAttributes>(node.attributes).window;
  const bool forward = node.op == ir::Op::convolution;
  const Shape& from = forward ? shapes.x : shapes.y;
  const Shape& to = forward ? shapes.y : shapes.x;
  const auto kernel = static_cast<int>(window.kernel[0]);
  const int taps = kernel * kernel;
  const auto padding = [&](int axis) {
    const auto before = static_cast<int>(window.padding_before[axis]);
    return forward ? before : kernel - 1 - before;
  };
  Plan plan{};
  plan.channels = static_cast<int>(from[1]), plan.results = static_cast<int>(to[1]);
  plan.h = static_cast<int>(from[2]), plan.w = static_cast<int>(from[3]);
  plan.p = static_cast<int>(to[2]), plan.q = static_cast<int>(to[3]);
  plan.top = padding(0), plan.left = padding(1);
  plan.flips = !forward;
  (forward ? plan.of_result : plan.of_channel) = static_cast<int>(shapes.weights[1]) * taps;
  (forward ? plan.of_channel : plan.of_result) = taps;
  // So many rows at most have positions of one block.
  plan.rows = std::min(plan.p, (kPositions - 2) / plan.q + 2) + kernel - 1;
  plan.pitch = plan.q + kernel - 1;
  const std::size_t per_channel =
      static_cast<std::size_t>(plan.plane() + taps * kResults) * sizeof(float);
  const auto most = static_cast<int>(kMostShared / per_channel) / kSlices * kSlices;
  plan.chunk = std::min(most, (plan.channels + kSlices - 1) / kSlices * kSlices);
  plan.by_rows = Divider(plan.rows), plan.by_pitch = Divider(plan.pitch);
  plan.by_taps = Divider(taps), plan.by_q = Divider(plan.q);
  plan.by_tiles = Divider((plan.p * plan.q + kPositions - 1) / kPositions);
  plan.by_groups = Divider((plan.results + kResults - 1) / kResults);
  return plan;
}

class SmallConvolution final : public NodeKernel {
 public:
  SmallConvolution(const ir::Graph& graph, const ir::Node& node, const Context&)
      : NodeKernel(graph, node) {
    const ConvolutionShapes shapes(graph, node);
    plan_ = plan_of(node, shapes);
    const auto kernel = static_cast<int>(shapes.weights[2]);
    kernel_ = kernel == 3 ? correlate<3> : correlate<5>;
    shared_bytes_ = static_cast<std::size_t>(plan_.chunk) *
                    static_cast<std::size_t>(plan_.plane() + kernel * kernel * kResults) *
                    sizeof(float);
    blocks_ = static_cast<unsigned>(shapes.x[0] * plan_.by_tiles.divisor * plan_.by_groups.divisor);
    check(cudaFuncSetAttribute(kernel_, cudaFuncAttributeMaxDynamicSharedMemorySize, kMostShared),
          "cudaFuncSetAttribute");
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    kernel_<<<blocks_, kBlock, shared_bytes_, stream>>>(
        plan_, in<float>(pointers, 0), in<float>(pointers, 1), out<float>(pointers, 0));
    check_launch("convolution of few images");
  }

 private:
  Plan plan_;
  void (*kernel_)(const Plan, const float*, const float*, float*);
  std::size_t shared_bytes_;
  unsigned blocks_;
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const auto& a = std::get<ir::ConvolutionAttributes>(node.attributes);
  if (compute_type(graph, node) != DataType::kFloat32 || uses_tensor_cores(graph, node)) {
    return Support::no("convolution of few images: float32 without tensor cores");
  }
  const ir::Window& w = a.window;
  const bool is_3_or_5 = both_are(w.kernel, 3) || both_are(w.kernel, 5);
  if (!a.epilogue.empty() || a.groups != 1 || !is_3_or_5 || !both_are(w.stride, 1) ||
      !both_are(w.dilation, 1)) {
    return Support::no("convolution of few images: kernels of 3 x 3 or 5 x 5 with strides of 1");
  }
  const ConvolutionShapes shapes(graph, node);
  const bool is_empty = element_count(shapes.x) == 0 || element_count(shapes.y) == 0;
  if (is_empty || products_of(node, shapes) > kMostProducts || element_count(shapes.x) > 1 << 28 ||
      element_count(shapes.weights) > 1 << 28) {
    return Support::no("convolution of few images: more of them, or none");
  }
  const Plan plan = plan_of(node, shapes);
  if (plan.channels < kSlices || plan.chunk == 0) {
    return Support::no("convolution of few images: some channels, in planes that are not large");
  }
  return {};
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context& context) {
  return std::make_unique<SmallConvolution>(graph, node, context);
}

}  // namespace

std::vector<KernelEntry> small_convolution_entries() {
  return {{ir::Op::convolution, supports, make, convolution_layouts, nullptr},
          {ir::Op::convolution_gradient_data, supports, make, convolution_layouts, nullptr}};
}

}  // namespace traingraph::cuda
