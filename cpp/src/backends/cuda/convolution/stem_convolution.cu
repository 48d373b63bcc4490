// The forward pass of a stem convolution in TF32 on tensor cores.
#include "backends/cuda/convolution/stem_convolution.h"

#include "backends/cuda/convolution/layouts.h"
#include "backends/cuda/device/device.h"
#include "backends/cuda/device/tensor_cores.h"
#include "backends/cuda/kernel/check.h"

namespace traingraph::cuda {
namespace {

// A block processes chunks of 8 rows and 16 columns of positions. Its four warps split a chunk two
// by two: 4 rows and 32 results each.
constexpr int kRows = 8, kColumns = 16;
constexpr int kBlock = 4 * 32;
constexpr int kBlocksAtOnce = 3;  // per multiprocessor
constexpr int kRowsOfWarp = kRows / 2, kResultsOfWarp = kStemResults / 2;
constexpr int kInner = kStemTaps * kStemWidth, kAtOnce = 16;  // inner extent of two products
// Floats from row to row of x in shared memory. Positions are 12 floats apart, so that the lanes of
// one load read one contiguous piece, which they share.
constexpr int kPitch = (kColumns + kStemTaps - 1) * kStemChannels;
constexpr int kStage = (kRows + kStemTaps - 1) * kPitch;           // floats of a chunk of x
constexpr int kShared = (kStemResults * kInner + 2 * kStage) * 4;  // bytes

// x (N, p + 3, q + 3, 12), weights (o, 4, 4, 12) → y (N, p, q, o)
struct Plan {
  int p, q, o;
  std::int64_t chunks;
  Divider by_across, by_down;  // chunks per image
};

struct Chunk {
  std::int64_t image;
  std::int64_t row, column;  // its first position

  __device__ Chunk(const Plan& plan, std::int64_t number) : image(number) {
    column = plan.by_across.split(image) * kColumns;
    row = plan.by_down.split(image) * kRows;
  }
};

__device__ void load_chunk(const Plan& plan, const float* x, const Chunk& chunk, float* stage) {
  const std::int64_t line = static_cast<std::int64_t>(plan.q + kStemTaps - 1) * kStemChannels;
  const float* const from = x + (chunk.image * (plan.p + kStemTaps - 1) + chunk.row) * line +
                            chunk.column * kStemChannels;
  for (int k = static_cast<int>(threadIdx.x) * 4; k < kStage; k += kBlock * 4) {
    copy_async(stage + k, from + k / kPitch * line + k % kPitch, true);
  }
}

// The position of a weight in shared memory, chosen so that a lane loads its four weights of a
// product at once. Result 4 g + 2 m + half of a warp's 32 is row g + 8 half of product m. Of each
// 16 inner elements, lane t has 4 t to 4 t + 3, two for each of two products.
__device__ int place_of_weight(int result, int inner) {
  const int g = result % 32 / 4, m = result / 2 % 2, half = result % 2;
  const int t = inner % kAtOnce / 4, product = inner / 2 % 2, second = inner % 2;
  const int step = result / 32 * (kInner / kAtOnce) + inner / kAtOnce;
  return (((step * 2 + product) * 2 + m) * 32 + 4 * g + t) * 4 + half + 2 * second;
}

// Grid: (blocks, tiles of results).
__global__ void __launch_bounds__(kBlock, kBlocksAtOnce)
    convolve_rows(const __grid_constant__ Plan plan, const float* x, const float* weights,
                  float* y) {
  extern __shared__ __align__(16) float memory[];
  float* const stages = memory + kStemResults * kInner;
  const int first_result = static_cast<int>(blockIdx.y) * kStemResults;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int g = lane / 4, t = lane % 4;
  const int row = warp / 2 * kRowsOfWarp, share = warp % 2;
  for (int k = static_cast<int>(threadIdx.x); k < kStemResults * kInner; k += kBlock) {
    memory[place_of_weight(k / kInner, k % kInner)] =
        weights[static_cast<std::int64_t>(first_result) * kInner + k];
  }
  std::int64_t number = blockIdx.x;
  if (number < plan.chunks) load_chunk(plan, x, Chunk(plan, number), stages);
  for (int stage = 0; number < plan.chunks; number += gridDim.x, stage ^= 1) {
    wait_for_async_copies();
    __syncthreads();  // all threads have their copies, and no thread reads the other stage
    const std::int64_t next = number + gridDim.x;
    if (next < plan.chunks) {
      load_chunk(plan, x, Chunk(plan, next), stages + (stage ^ 1) * kStage);
    }
    const float* const x_at = stages + stage * kStage + row * kPitch + g * kStemChannels + 4 * t;
    const auto* weights_at = reinterpret_cast<const float4*>(memory) + share * kInner * 8 + lane;
    // By product of results, row of positions, and half of a row.
    float sums[2][kRowsOfWarp][2][4] = {};
    for (int tap = 0; tap < kStemTaps; ++tap) {
#pragma unroll
      for (int k = 0; k < kStemWidth; k += kAtOnce) {
        float4 a[2][2];
#pragma unroll
        for (int n = 0; n < 4; ++n) a[n / 2][n % 2] = weights_at[n * 32];
        weights_at += 4 * 32;
#pragma unroll
        for (int r = 0; r < kRowsOfWarp; ++r) {
#pragma unroll
          for (int c = 0; c < 2; ++c) {
            const auto b = *reinterpret_cast<const float4*>(x_at + (r + tap) * kPitch +
                                                            c * 8 * kStemChannels + k);
#pragma unroll
            for (int m = 0; m < 2; ++m) {
              const float4 &one = a[0][m], &other = a[1][m];
              multiply_add(sums[m][r][c], one.x, one.y, one.z, one.w, b.x, b.y);
              multiply_add(sums[m][r][c], other.x, other.y, other.z, other.w, b.z, b.w);
            }
          }
        }
      }
    }
    const Chunk chunk(plan, number);
    float* const to = y + first_result + share * kResultsOfWarp + 4 * g;
#pragma unroll
    for (int r = 0; r < kRowsOfWarp; ++r) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          const std::int64_t at = (chunk.image * plan.p + chunk.row + row + r) * plan.q +
                                  chunk.column + 8 * c + 2 * t + n;
          const auto &even = sums[0][r][c], &odd = sums[1][r][c];
          *reinterpret_cast<float4*>(to + at * plan.o) = {even[n], even[n + 2], odd[n], odd[n + 2]};
        }
      }
    }
  }
}

class StemConvolution final : public NodeKernel {
 public:
  StemConvolution(const ir::Graph& graph, const ir::Node& node, const Context& context)
      : NodeKernel(graph, node), packed_(space_to_depth(graph, node)) {
    const ConvolutionShapes shapes(graph, node);
    plan_.p = static_cast<int>(shapes.y[2]);
    plan_.q = static_cast<int>(shapes.y[3]);
    plan_.o = static_cast<int>(shapes.y[1]);
    plan_.by_across = Divider(plan_.q / kColumns);
    plan_.by_down = Divider(plan_.p / kRows);
    plan_.chunks = shapes.y[0] * (plan_.p / kRows) * (plan_.q / kColumns);
    const std::int64_t wanted =
        std::int64_t{context.multiprocessors} * kBlocksAtOnce * kStemResults / plan_.o;
    blocks_ = static_cast<unsigned>(std::clamp<std::int64_t>(wanted, 1, plan_.chunks));
    check(cudaFuncSetAttribute(convolve_rows, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared),
          "cudaFuncSetAttribute");
  }

  std::size_t workspace_bytes() const override {
    return bytes_of_copy(packed_.source, sizeof(float)) +
           bytes_of_copy(packed_.weights, sizeof(float));
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    auto* const source = workspace<std::byte>(pointers);
    std::byte* const weights = source + bytes_of_copy(packed_.source, sizeof(float));
    enqueue_source(packed_, sizeof(float), in<float>(pointers, 0), source, stream);
    enqueue_weights(packed_, sizeof(float), in<float>(pointers, 1), weights, stream);
    const dim3 blocks(blocks_, static_cast<unsigned>(plan_.o / kStemResults));
    convolve_rows<<<blocks, kBlock, kShared, stream>>>(
        plan_, reinterpret_cast<const float*>(source), reinterpret_cast<const float*>(weights),
        out<float>(pointers, 0));
    check_launch("convolution, stem");
  }

 private:
  SpaceToDepth packed_;
  Plan plan_{};
  unsigned blocks_ = 1;
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const Support first = is_stem(graph, node);
  if (!first.yes) return first;
  const Shape& y = ConvolutionShapes(graph, node).y;
  if (y[2] % kRows != 0 || y[3] % kColumns != 0) {
    return Support::no("stem convolution: positions in multiples of 8 and 16");
  }
  return {};
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context& context) {
  return std::make_unique<StemConvolution>(graph, node, context);
}

}  // namespace

std::vector<KernelEntry> stem_convolution_entries() {
  return {{ir::Op::convolution, supports, make, convolution_layouts, nullptr}};
}

}  // namespace traingraph::cuda
