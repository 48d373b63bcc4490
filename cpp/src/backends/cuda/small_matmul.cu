// Matrix products that are too small to fill a device: a library call costs more than they do. A
// block computes 16 x 16 results, or a cluster of blocks does; their warps share the inner extent,
// 16 of it at a time, and their sums are added in order. Exact float32.
#include "backends/cuda/device.h"
#include "backends/cuda/matmul.h"

namespace traingraph::cuda {
namespace {

constexpr int kTile = 16, kDepth = 16;
constexpr int kLeftStep = kTile + 2, kRightStep = kTile + 4;  // padded, and aligned for vectors
constexpr std::int64_t kMostProducts = std::int64_t{1} << 25, kMostInner = 4096;

// y (batch, M, N) = alpha op(a) op(b) [+ bias (N)] [, relu]
struct Plan {
  int rows, columns, inner;
  int a_row, a_inner, b_inner, b_column;  // distances in elements
  std::int64_t a_matrix, b_matrix, y_matrix;
  float alpha;
  bool relu;
};

struct Stage {
  float left[kDepth][kLeftStep];
  float right[kDepth][kRightStep];
};

template <int kWarps>
union Shared {
  Stage stages[kWarps];
  float sums[kWarps][kTile][kTile];
};

// A warp's share of one operand, 16 x 16: element (line, depth) is at line * line_step + depth *
// depth_step, and neighbouring threads take what lies beside each other.
struct Reader {
  const float* from;
  int line_step, depth_step;
  int lines, depths;  // what is there
  bool depth_first;   // the inner extent lies beside each other
  int lane;

  __device__ int line(int k) const { return depth_first ? lane / 16 + 2 * k : lane % 16; }
  __device__ int depth(int k) const { return depth_first ? lane % 16 : lane / 16 + 2 * k; }
  __device__ void load(int start, float (&values)[8]) const {
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const int l = line(k), d = start + depth(k);
      values[k] = l < lines && d < depths ? from[l * line_step + d * depth_step] : 0.0f;
    }
  }
};

// A block's work; kSplit blocks share the inner extent.
template <int kWarps, int kAhead, int kSplit>
__device__ void multiply_tile(const Plan& plan, const float* a, const float* b, const float* bias,
                              float* y) {
  __shared__ Shared<kWarps> shared;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int row = static_cast<int>(blockIdx.y) * kTile,
            column = static_cast<int>(blockIdx.x) * kTile;
  const int part = static_cast<int>(blockIdx.z) % kSplit;
  const std::int64_t matrix = blockIdx.z / kSplit;
  const Reader left{a + matrix * plan.a_matrix + std::int64_t{row} * plan.a_row,
                    plan.a_row,
                    plan.a_inner,
                    plan.rows - row,
                    plan.inner,
                    plan.a_inner == 1,
                    lane};
  const Reader right{b + matrix * plan.b_matrix + std::int64_t{column} * plan.b_column,
                     plan.b_column,
                     plan.b_inner,
                     plan.columns - column,
                     plan.inner,
                     plan.b_inner == 1,
                     lane};
  Stage& stage = shared.stages[warp];
  const int r = lane / 4 * 2, c = lane % 4 * 4;  // this thread's 2 x 4 results
  float sum[2][4] = {};
  // All loads of up to kAhead stages are on their way before the first is used.
  constexpr int kRound = kSplit * kWarps * kDepth;
  for (int start = (part * kWarps + warp) * kDepth; start < plan.inner; start += kAhead * kRound) {
    float from_left[kAhead][8], from_right[kAhead][8];
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
      left.load(start + s * kRound, from_left[s]);
      right.load(start + s * kRound, from_right[s]);
    }
#pragma unroll
    for (int s = 0; s < kAhead; ++s) {
      if (start + s * kRound >= plan.inner) break;
      __syncwarp();
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        stage.left[left.depth(k)][left.line(k)] = from_left[s][k];
        stage.right[right.depth(k)][right.line(k)] = from_right[s][k];
      }
      __syncwarp();
#pragma unroll
      for (int d = 0; d < kDepth; ++d) {
        const float2 x = *reinterpret_cast<const float2*>(&stage.left[d][r]);
        const float4 w = *reinterpret_cast<const float4*>(&stage.right[d][c]);
        const float lines[2] = {x.x, x.y}, others[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) sum[i][j] += lines[i] * others[j];
        }
      }
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) shared.sums[warp][r + i][c + j] = sum[i][j];
  }
  __syncthreads();
  __shared__ float block[kTile * kTile];
  for (int k = static_cast<int>(threadIdx.x); k < kTile * kTile; k += kWarps * 32) {
    float total = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) total += shared.sums[w][k / kTile][k % kTile];
    block[k] = total;
  }
  // Blocks that share a tile form a cluster; its first one adds up.
  if constexpr (kSplit > 1) {
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
  }
  if (part == 0) {
    for (int k = static_cast<int>(threadIdx.x); k < kTile * kTile; k += kWarps * 32) {
      float total = block[k];
      if constexpr (kSplit > 1) {
#pragma unroll
        for (unsigned other = 1; other < kSplit; ++other) {
          total += static_cast<const float*>(__cluster_map_shared_rank(block, other))[k];
        }
      }
      const int i = k / kTile, j = k % kTile;
      if (row + i >= plan.rows || column + j >= plan.columns) continue;
      total *= plan.alpha;
      if (bias != nullptr) total += bias[column + j];
      if (plan.relu) total = total < 0.0f ? 0.0f : total;
      y[matrix * plan.y_matrix + static_cast<std::int64_t>(row + i) * plan.columns + column + j] =
          total;
    }
  }
  // Nobody leaves while another reads its sums.
  if constexpr (kSplit > 1) {
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
  }
}

// Where there are no more tiles than this, four blocks share one.
constexpr int kSplitWarps = 8, kSplit = 4, kFewTiles = 32;

__global__ void __cluster_dims__(1, 1, kSplit) __launch_bounds__(kSplitWarps * 32)
    multiply_split(const __grid_constant__ Plan plan, const float* a, const float* b,
                   const float* bias, float* y) {
  multiply_tile<kSplitWarps, 2, kSplit>(plan, a, b, bias, y);
}

template <int kWarps, int kAhead>
__global__ void __launch_bounds__(kWarps * 32)
    multiply(const __grid_constant__ Plan plan, const float* a, const float* b, const float* bias,
             float* y) {
  multiply_tile<kWarps, kAhead, 1>(plan, a, b, bias, y);
}

class SmallMatmul final : public NodeKernel {
 public:
  SmallMatmul(const ir::Graph& graph, const ir::Node& node) : NodeKernel(graph, node) {
    const auto& attributes = std::get<ir::MatmulAttributes>(node.attributes);
    const MatrixProblem p = matrix_problem(graph, node);
    plan_.rows = static_cast<int>(p.rows);
    plan_.columns = static_cast<int>(p.columns);
    plan_.inner = static_cast<int>(p.inner);
    plan_.a_row = static_cast<int>(p.transpose_a ? 1 : p.inner);
    plan_.a_inner = static_cast<int>(p.transpose_a ? p.rows : 1);
    plan_.b_inner = static_cast<int>(p.transpose_b ? 1 : p.columns);
    plan_.b_column = static_cast<int>(p.transpose_b ? p.inner : 1);
    plan_.a_matrix = p.batch.a * p.rows * p.inner;
    plan_.b_matrix = p.batch.b * p.inner * p.columns;
    plan_.y_matrix = p.rows * p.columns;
    plan_.alpha = static_cast<float>(attributes.alpha);
    plan_.relu = ir::ending_of(attributes.epilogue)->relu;
    blocks_ = dim3(blocks_for(p.columns, kTile), blocks_for(p.rows, kTile),
                   static_cast<unsigned>(p.batch.extent));
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    const float* const bias = inputs_.size() > 2 ? in<float>(pointers, 2) : nullptr;
    const float* const a = in<float>(pointers, 0);
    const float* const b = in<float>(pointers, 1);
    float* const y = out<float>(pointers, 0);
    // As many warps as there are stages, so that small blocks share a multiprocessor.
    if (plan_.inner <= 4 * kDepth) {
      multiply<4, 1><<<blocks_, 4 * 32, 0, stream>>>(plan_, a, b, bias, y);
    } else if (plan_.inner <= 8 * kDepth) {
      multiply<8, 1><<<blocks_, 8 * 32, 0, stream>>>(plan_, a, b, bias, y);
    } else if (static_cast<std::int64_t>(blocks_.x) * blocks_.y * blocks_.z <= kFewTiles) {
      const dim3 blocks(blocks_.x, blocks_.y, blocks_.z * kSplit);
      multiply_split<<<blocks, kSplitWarps * 32, 0, stream>>>(plan_, a, b, bias, y);
    } else {
      multiply<16, 4><<<blocks_, 16 * 32, 0, stream>>>(plan_, a, b, bias, y);
    }
    check_launch("matmul, own loops");
  }

 private:
  Plan plan_{};
  dim3 blocks_;
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (Support s = supports_floating(graph, node); !s.yes) return s;
  if (compute_type(graph, node) != DataType::kFloat32) return Support::no("own loops: float32");
  if (Support s = supports_matmul_ending(graph, node); !s.yes) return s;
  const MatrixProblem p = matrix_problem(graph, node);
  if (!p.outer.empty()) return Support::no("own loops: matrices at equal distances");
  if (graph.type(node.outputs[0]).elements() == 0) return Support::no("own loops: no results");
  const double products = static_cast<double>(p.rows) * static_cast<double>(p.columns) *
                          static_cast<double>(p.inner) * static_cast<double>(p.batch.extent);
  if (products > static_cast<double>(kMostProducts) || p.inner > kMostInner ||
      p.batch.extent > 65535 / kSplit || p.rows > 65535 * kTile || p.columns > 65535 * kTile) {
    return Support::no("own loops: small products");
  }
  return {};
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context&) {
  return std::make_unique<SmallMatmul>(graph, node);
}

}  // namespace

std::vector<KernelEntry> small_matmul_entries() {
  return {{ir::Op::matmul, supports, make, nullptr, matmul_fuses}};
}

}  // namespace traingraph::cuda
