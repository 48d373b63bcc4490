// Matrix products that are too small to fill a device, by hand-written kernels: a library call
// would cost more than the work.
#include <optional>

#include "backends/cuda/products/matmul.h"
#include "backends/cuda/products/skinny_gemm.h"
#include "backends/cuda/tasks/megakernel_tasks.h"

namespace traingraph::cuda {
namespace {

__global__ void __launch_bounds__(kSmallKThreads)
    multiply_small_k(const __grid_constant__ TilePlan plan, const float* a, const float* b,
                     const float* added, float* y) {
  __shared__ float rows[kSmallKRows][kMostSmallK];
  const int row = static_cast<int>(blockIdx.x) * kSmallKRows;
  const int column = static_cast<int>(blockIdx.y * kSmallKThreads + threadIdx.x) * 4;
  a += blockIdx.z * plan.a_matrix;
  b += blockIdx.z * plan.b_matrix;
  const std::int64_t first = blockIdx.z * plan.y_matrix;
  for (int k = static_cast<int>(threadIdx.x); k < kSmallKRows * plan.inner; k += kSmallKThreads) {
    const int r = k / plan.inner, d = k % plan.inner;
    rows[r][d] = row + r < plan.rows ? a[std::int64_t{row + r} * plan.a_row + d * plan.a_inner] : 0;
  }
  __syncthreads();
  if (column >= plan.columns) return;
  // The mask's operands are loaded while the sums are computed.
  const std::int64_t at = first + std::int64_t{row} * plan.columns + column;
  Pack<float> masks[kSmallKRows];
  if (plan.masked) {
#pragma unroll
    for (int r = 0; r < kSmallKRows; ++r) {
      if (row + r < plan.rows) masks[r] = load<4>(added + at + std::int64_t{r} * plan.columns);
    }
  }
  Pack<float> sum[kSmallKRows] = {};
#pragma unroll 8
  for (int d = 0; d < plan.inner; ++d) {
    const auto w = load<4>(b + std::int64_t{d} * plan.b_inner + column);
#pragma unroll
    for (int r = 0; r < kSmallKRows; ++r) {
#pragma unroll
      for (int v = 0; v < 4; ++v) sum[r].element[v] += rows[r][d] * w.element[v];
    }
  }
#pragma unroll
  for (int r = 0; r < kSmallKRows; ++r) {
    if (row + r >= plan.rows) break;
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      float& total = sum[r].element[v];
      total = apply_epilogue(plan, total, added, column + v);
      if (plan.masked && masks[r].element[v] <= 0.0f) total = 0.0f;
    }
    store(y + at + std::int64_t{r} * plan.columns, sum[r]);
  }
}

constexpr std::int64_t kMostProducts = std::int64_t{1} << 25, kMostInner = 4096;

// With at most so many tiles, a cluster of four blocks splits the inner extent of each.
constexpr int kSplitWarps = 8, kSplit = 4, kFewTiles = 32;

__global__ void __launch_bounds__(kSplitWarps * 32)
    multiply_split(const __grid_constant__ TilePlan plan, const float* a, const float* b,
                   const float* added, float* y) {
  __shared__ TileScratch<kSplitWarps> scratch;
  const auto z = static_cast<int>(blockIdx.z);
  const Tile tile{static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), z / kSplit};
  multiply_tile<kSplitWarps, 2, kSplit>(plan, a, b, added, y, tile, z % kSplit, scratch);
}

template <int kWarps, int kAhead>
__global__ void __launch_bounds__(kWarps * 32)
    multiply(const __grid_constant__ TilePlan plan, const float* a, const float* b,
             const float* added, float* y) {
  __shared__ TileScratch<kWarps> scratch;
  const Tile tile{static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), blockIdx.z};
  multiply_tile<kWarps, kAhead, 1>(plan, a, b, added, y, tile, 0, scratch);
}

class SmallMatmul final : public NodeKernel {
 public:
  SmallMatmul(const ir::Graph& graph, const ir::Node& node, const Context& context)
      : NodeKernel(graph, node), has_clusters_(context.cluster_blocks > 1) {
    const MatrixProblem p = matrix_problem(graph, node);
    plan_ = tile_plan(graph, node);
    tiny_ = is_tiny(p);
    blocks_ = dim3(blocks_for(p.columns, kTile), blocks_for(p.rows, kTile),
                   static_cast<unsigned>(p.batch.extent));
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    const float* const added = inputs_.size() > 2 ? in<float>(pointers, 2) : nullptr;
    const float* const a = in<float>(pointers, 0);
    const float* const b = in<float>(pointers, 1);
    float* const y = out<float>(pointers, 0);
    // As many warps as there are stages, so that small blocks share a multiprocessor.
    if (tiny_) {
      run_tasks<<<tiles(), kThreads, 0, stream>>>(TileTasks{plan_, a, b, added, y});
    } else if (has_small_k(plan_)) {
      const dim3 blocks(blocks_for(plan_.rows, kSmallKRows),
                        blocks_for(plan_.columns, kSmallKThreads * 4), blocks_.z);
      multiply_small_k<<<blocks, kSmallKThreads, 0, stream>>>(plan_, a, b, added, y);
    } else if (has_few_columns(plan_)) {
      const dim3 blocks(blocks_for(plan_.rows, kFewRows), 1, blocks_.z);
      auto* const kernel =
          for_few(plan_.columns, [](auto few) { return multiply_few_columns<few>; });
      kernel<<<blocks, kThreads, 0, stream>>>(plan_, a, b, added, y);
    } else if (has_few_rows(plan_)) {
      const dim3 blocks(blocks_for(plan_.columns, kFewRowsColumns), 1, blocks_.z);
      auto* const kernel = for_few(plan_.rows, [](auto few) { return multiply_few_rows<few>; });
      kernel<<<blocks, kThreads, 0, stream>>>(plan_, a, b, added, y);
    } else if (plan_.inner <= 4 * kDepth) {
      multiply<4, 1><<<blocks_, 4 * 32, 0, stream>>>(plan_, a, b, added, y);
    } else if (plan_.inner <= 8 * kDepth) {
      multiply<8, 1><<<blocks_, 8 * 32, 0, stream>>>(plan_, a, b, added, y);
    } else if (has_clusters_ &&
               static_cast<std::int64_t>(blocks_.x) * blocks_.y * blocks_.z <= kFewTiles) {
      split(a, b, added, y, stream);
    } else {
      multiply<16, 4><<<blocks_, 16 * 32, 0, stream>>>(plan_, a, b, added, y);
    }
    check_launch("matmul, hand-written kernel");
  }

  std::optional<MegakernelWork> megakernel_work(Pointers pointers) const override {
    if (!tiny_) return std::nullopt;
    const float* const added = inputs_.size() > 2 ? in<float>(pointers, 2) : nullptr;
    return make_megakernel_work(TileTasks{plan_, in<float>(pointers, 0), in<float>(pointers, 1),
                                          added, out<float>(pointers, 0)},
                                tiles());
  }

 private:
  unsigned tiles() const { return blocks_.x * blocks_.y * blocks_.z; }

  void split(const float* a, const float* b, const float* added, float* y,
             cudaStream_t stream) const {
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {1, 1, kSplit};
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(blocks_.x, blocks_.y, blocks_.z * kSplit);
    config.blockDim = kSplitWarps * 32;
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = 1;
    check(cudaLaunchKernelEx(&config, multiply_split, plan_, a, b, added, y), "matmul, a cluster");
  }

  TilePlan plan_{};
  bool has_clusters_;
  bool tiny_;  // small enough for a megakernel
  dim3 blocks_;
};

// In addition to the epilogues of all products: relu_gradient(result, another value of its shape).
bool fuses(const ir::Graph& graph, const ir::Node& node, const ir::ScalarList& list,
           const std::vector<ir::ValueId>& extra) {
  const auto epilogue = matmul_epilogue(graph, node, list, extra);
  if (epilogue && !list.empty() && epilogue->matrix == 0) return true;
  return ir::is_relu_gradient(list) && list.code[0].x == 0 && extra.size() == 1 &&
         graph.type(extra[0]).shape == graph.type(node.outputs[0]).shape &&
         graph.type(extra[0]).data_type == DataType::kFloat32;
}

Support supports_product(const ir::Graph& graph, const ir::Node& node) {
  if (Support s = supports_floating(graph, node); !s.yes) return s;
  if (compute_type(graph, node) != DataType::kFloat32)
    return Support::no("hand-written kernel: float32");
  const MatrixProblem p = matrix_problem(graph, node);
  if (!p.outer.empty()) return Support::no("hand-written kernel: matrices at equal distances");
  if (graph.type(node.outputs[0]).elements() == 0)
    return Support::no("hand-written kernel: no results");
  const double products = static_cast<double>(p.rows) * static_cast<double>(p.columns) *
                          static_cast<double>(p.inner) * static_cast<double>(p.batch.extent);
  if (products > static_cast<double>(kMostProducts) || p.inner > kMostInner ||
      p.batch.extent > 65535 / kSplit || p.rows > 65535 * kTile || p.columns > 65535 * kTile) {
    return Support::no("hand-written kernel: small products");
  }
  return {};
}

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const ir::ScalarList& list = std::get<ir::MatmulAttributes>(node.attributes).epilogue;
  const std::vector<ir::ValueId> extra(node.inputs.begin() + 2, node.inputs.end());
  if (!list.empty() && !fuses(graph, node, list, extra)) {
    return Support::no("hand-written kernel: another epilogue");
  }
  return supports_product(graph, node);
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context& context) {
  return std::make_unique<SmallMatmul>(graph, node, context);
}

}  // namespace

bool is_small_matmul(const ir::Graph& graph, const ir::Node& node) {
  return supports_product(graph, node).yes;
}

std::vector<KernelEntry> small_matmul_entries() {
  return {{ir::Op::matmul, supports, make, nullptr, fuses}};
}

}  // namespace traingraph::cuda
