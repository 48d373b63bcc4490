// The weight gradient of a stem convolution in TF32. A warp multiplies one row of four taps, 48
// floats per position, by dy of 64 results. Positions are split between blocks by shape alone, and
// the sums are added in a fixed order.
#include <optional>

#include "backends/cuda/convolution/layouts.h"
#include "backends/cuda/convolution/stem_convolution.h"
#include "backends/cuda/device/device.h"
#include "backends/cuda/device/split_k.h"
#include "backends/cuda/device/tensor_cores.h"
#include "backends/cuda/kernel/check.h"

namespace traingraph::cuda {
namespace {

constexpr int kPitch = kStemResults + 4;  // floats per position of dy: no bank conflicts
constexpr int kBlock = kStemTaps * 32;    // threads, a warp for each row of taps
constexpr int kBlocksAtOnce = 3;          // per multiprocessor
constexpr int kBlocksWanted = 132 * kBlocksAtOnce;
constexpr int kPositions = 64;  // per chunk, at most
constexpr int kAtOnce = 8;      // per product, in one row

// x (N, p + 3, q + 3, 12), dy (N, p, q, o), weights (o, 4, 4, 12)
struct Plan {
  int p, q, o;
  int rows, columns;  // positions of a chunk
  std::int64_t chunks;
  int splits;                  // blocks that share a tile of results
  Divider by_across, by_down;  // chunks per image

  __host__ __device__ int positions() const { return rows * columns; }
  __host__ __device__ int x_rows() const { return rows + kStemTaps - 1; }
  __host__ __device__ int x_pitch() const { return (columns + kStemTaps - 1) * kStemChannels; }
  __host__ __device__ int x_floats() const { return x_rows() * x_pitch(); }
  // Floats of one chunk in shared memory.
  __host__ __device__ int stage() const { return x_floats() + positions() * kPitch; }
  std::size_t shared_bytes() const { return 2 * static_cast<std::size_t>(stage()) * sizeof(float); }
};

// Starts the copies of a chunk's parts of x and dy.
__device__ void load_chunk(const Plan& plan, const float* dy, const float* x, std::int64_t chunk,
                           float* stage) {
  std::int64_t image = chunk;
  const std::int64_t column = plan.by_across.split(image) * plan.columns;
  const std::int64_t row = plan.by_down.split(image) * plan.rows;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t line = static_cast<std::int64_t>(plan.q + kStemTaps - 1) * kStemChannels;
  const float* const from_x =
      x + (image * (plan.p + kStemTaps - 1) + row) * line + column * kStemChannels;
  for (int k = thread * 4; k < plan.x_floats(); k += kBlock * 4) {
    const int down = k / plan.x_pitch();
    copy_async(stage + k, from_x + down * line + (k - down * plan.x_pitch()), true);
  }
  float* const to_dy = stage + plan.x_floats();
  const float* const from_dy = dy + ((image * plan.p + row) * plan.q + column) * plan.o;
  constexpr int kThreadsOfOne = kStemResults / 4;
  const int part = thread % kThreadsOfOne * 4;
#pragma unroll 4
  for (int k = thread / kThreadsOfOne; k < plan.positions(); k += kBlock / kThreadsOfOne) {
    const int down = k / plan.columns, across = k - down * plan.columns;
    const std::int64_t at = static_cast<std::int64_t>(down) * plan.q + across;
    copy_async(to_dy + k * kPitch + part, from_dy + at * plan.o + part, true);
  }
}

// dy, x → sums (splits, o, 4, 48). Grid: (split, tile of results). In each product, lane t of a
// group stands for positions 2 t and 2 t + 1 of eight.
__global__ void __launch_bounds__(kBlock, kBlocksAtOnce)
    multiply_rows(const __grid_constant__ Plan plan, const float* dy, const float* x,
                  float* sums_out) {
  extern __shared__ __align__(16) float memory[];
  const int first_result = static_cast<int>(blockIdx.y) * kStemResults;
  const int split = static_cast<int>(blockIdx.x);
  const std::int64_t end = plan.chunks * (split + 1) / plan.splits;
  const int lane = static_cast<int>(threadIdx.x) % 32, tap_row = static_cast<int>(threadIdx.x) / 32;
  const int g = lane / 4, t = lane % 4;
  const int x_at = tap_row * plan.x_pitch() + 2 * t * kStemChannels + g;
  const int dy_at = plan.x_floats() + 2 * t * kPitch + 2 * g;
  constexpr int kColumns = kStemWidth / 8;
  float sums[4][kColumns][4] = {};
  std::int64_t chunk = plan.chunks * split / plan.splits;
  load_chunk(plan, dy + first_result, x, chunk, memory);
  for (int stage = 0; chunk < end; ++chunk, stage ^= 1) {
    wait_for_async_copies();
    __syncthreads();  // all threads have their copies, and no thread reads the other stage
    if (chunk + 1 < end) {
      load_chunk(plan, dy + first_result, x, chunk + 1, memory + (stage ^ 1) * plan.stage());
    }
    const float* const from = memory + stage * plan.stage();
    const float* dy_from = from + dy_at;
    for (int row = 0; row < plan.rows; ++row) {
      const float* x_from = from + x_at + row * plan.x_pitch();
      for (int column = 0; column < plan.columns; column += kAtOnce) {
        float a[4][4];
        load_rows(dy_from, kPitch, a);
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          const float b0 = x_from[8 * c], b1 = x_from[8 * c + kStemChannels];
#pragma unroll
          for (int m = 0; m < 4; ++m) {
            multiply_add(sums[m][c], a[m][0], a[m][1], a[m][2], a[m][3], b0, b1);
          }
        }
        dy_from += kAtOnce * kPitch;
        x_from += kAtOnce * kStemChannels;
      }
    }
  }
#pragma unroll
  for (int m = 0; m < 4; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int result = first_result + row_of_result(m, half, g);
      const std::int64_t line = (static_cast<std::int64_t>(split) * plan.o + result) * kStemTaps;
      float* const to = sums_out + (line + tap_row) * kStemWidth + 2 * t;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const float* const two = sums[m][c] + 2 * half;
        *reinterpret_cast<float2*>(to + 8 * c) = {two[0], two[1]};
      }
    }
  }
}

// The chunk that loads least per position; nothing if no chunk divides the positions.
std::optional<Plan> plan_of(const ConvolutionShapes& shapes) {
  Plan plan{};
  plan.p = static_cast<int>(shapes.y[2]);
  plan.q = static_cast<int>(shapes.y[3]);
  plan.o = static_cast<int>(shapes.y[1]);
  std::optional<Plan> best;
  const auto cost = [](const Plan& one) {
    return static_cast<double>(one.stage()) / one.positions();
  };
  for (int columns = kAtOnce; columns <= std::min(plan.q, kPositions); columns += kAtOnce) {
    if (plan.q % columns != 0) continue;
    for (int rows = 1; rows * columns <= kPositions && rows <= plan.p; ++rows) {
      if (plan.p % rows != 0) continue;
      plan.rows = rows;
      plan.columns = columns;
      if (!best || cost(plan) < cost(*best)) best = plan;
    }
  }
  if (!best) return best;
  const int down = best->p / best->rows, across = best->q / best->columns;
  best->by_across = Divider(across);
  best->by_down = Divider(down);
  best->chunks = shapes.y[0] * down * across;
  const std::int64_t wanted = std::max(1, kBlocksWanted / (best->o / kStemResults));
  best->splits = static_cast<int>(std::min(wanted, best->chunks));
  return best;
}

class StemWeightGradient final : public NodeKernel {
 public:
  StemWeightGradient(const ir::Graph& graph, const ir::Node& node, const Context&)
      : NodeKernel(graph, node),
        packed_(space_to_depth(graph, node)),
        plan_(*plan_of(ConvolutionShapes(graph, node))) {
    check(cudaFuncSetAttribute(multiply_rows, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(plan_.shared_bytes())),
          "cudaFuncSetAttribute");
  }

  std::size_t workspace_bytes() const override {
    return bytes_of_copy(packed_.source, sizeof(float)) +
           static_cast<std::size_t>(plan_.splits + 1) * bytes();
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    auto* const source = workspace<std::byte>(pointers);
    auto* const sums =
        reinterpret_cast<float*>(source + bytes_of_copy(packed_.source, sizeof(float)));
    float* const weights = sums + plan_.splits * count();
    enqueue_source(packed_, sizeof(float), in<float>(pointers, 1), source, stream);
    const dim3 blocks(static_cast<unsigned>(plan_.splits),
                      static_cast<unsigned>(plan_.o / kStemResults));
    multiply_rows<<<blocks, kBlock, plan_.shared_bytes(), stream>>>(
        plan_, in<float>(pointers, 0), reinterpret_cast<const float*>(source), sums);
    check_launch("convolution_gradient_weights, stem");
    enqueue_split_k_sum(sums, plan_.splits, count(), weights, stream);
    enqueue_weights_back(packed_, sizeof(float), weights, out<float>(pointers, 0), stream);
  }

 private:
  std::int64_t count() const { return element_count(packed_.weights); }
  std::size_t bytes() const { return static_cast<std::size_t>(count()) * sizeof(float); }

  SpaceToDepth packed_;
  Plan plan_;
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const Support first = is_stem(graph, node);
  if (!first.yes) return first;
  if (!plan_of(ConvolutionShapes(graph, node))) {
    return Support::no("stem convolution: positions in rows of a multiple of 8");
  }
  return {};
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context& context) {
  return std::make_unique<StemWeightGradient>(graph, node, context);
}

}  // namespace

std::vector<KernelEntry> stem_weight_gradient_entries() {
  return {{ir::Op::convolution_gradient_weights, supports, make, convolution_layouts, nullptr}};
}

}  // namespace traingraph::cuda
