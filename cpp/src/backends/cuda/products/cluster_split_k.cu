// Split-K GEMM over clusters of two blocks, with WGMMA in TF32.
#include "backends/cuda/products/cluster_split_k.h"

#include <algorithm>

#include "backends/cuda/device/dependent_launch.h"
#include "backends/cuda/device/wgmma.h"
#include "backends/cuda/kernel/check.h"

namespace traingraph::cuda {
namespace {

// The kernel computes a (m rows) times b (n rows)ᵀ over `inner`, in tiles of kTileRows x
// kTileColumns. Two warpgroups multiply, 64 rows of a each. One thread of the last warp issues the
// copies.
constexpr int kTileColumns = 64, kTileColumnsBytes = kTileColumns * kTileFloats * 4;
constexpr int kProductThreads = 256, kBlock = kProductThreads + 32;
[[maybe_unused]] constexpr int kSteps = kTileFloats / 8;  // steps of a product
constexpr int kStages = 6;
constexpr int kPitch = kTileColumns + 8;  // floats from row to row of sums: no bank conflicts
constexpr int kOwnRows = kTileRows / 2;   // of the tile's sums, reduced and stored by one block
struct Stage {
  union {
    std::byte a[kTileBytes], blocks[kTileRows / kTileFloats][kBlockBytes];
  };
  std::byte b[kTileColumnsBytes];
};
// Begins at a multiple of 1024.
struct Shared {
  Stage stages[kStages];
  float sum[kTileRows][kPitch];
  Barrier full[kStages], free[kStages];
};
constexpr int kSharedBytes = sizeof(Shared) + 1024;

// a and b have rows of `inner` floats, or a is transposed. Then y is transposed too: its rows are
// those of b.
struct Product {
  int m, n, inner;
  int down;  // tiles along m
  float alpha;
  bool relu;
  const float* bias;  // null, or one number per column of y
  const float* mask;  // null, or of y's shape: y is 0 where the mask is not above zero
  float* y;
};

struct Operands {
  CUtensorMap a, b;
};

__device__ float apply_epilogue(const Product& p, float sum, float bias) {
  const float x = sum * p.alpha + bias;
  return p.relu ? fmaxf(x, 0) : x;
}

// The sums of both blocks, for the rows that this block stores.
__device__ float4 whole_sum(const Shared& shared, int row, int column) {
  const float* const at = &shared.sum[row][column];
  const float4 x = load_cluster_shared(0, at), y = load_cluster_shared(1, at);
  return {x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w};
}

[[maybe_unused]] __device__ void store_rows(const Product& p, const Shared& shared, int first,
                                            int first_m, int first_n) {
  constexpr int kAcross = kTileColumns / 4;
#pragma unroll
  for (int i = 0; i < kOwnRows * kAcross / kProductThreads; ++i) {
    const int at = i * kProductThreads + static_cast<int>(threadIdx.x);
    const int row = first + at / kAcross, column = first_n + at % kAcross * 4;
    const float4 sum = whole_sum(shared, row, at % kAcross * 4);
    if (first_m + row >= p.m || column >= p.n) continue;
    float4 bias{};
    if (p.bias != nullptr) bias = *reinterpret_cast<const float4*>(p.bias + column);
    *reinterpret_cast<float4*>(p.y + static_cast<std::int64_t>(first_m + row) * p.n + column) = {
        apply_epilogue(p, sum.x, bias.x), apply_epilogue(p, sum.y, bias.y),
        apply_epilogue(p, sum.z, bias.z), apply_epilogue(p, sum.w, bias.w)};
  }
}

// A thread's share of a transposed tile, four of its columns at a time. Threads of a warp have
// neighbouring rows, which are neighbouring columns of y.
struct TransposedPart {
  static constexpr int kAcross = kTileColumns / 4, kWarps = kProductThreads / 32;
  static constexpr int kRounds = kOwnRows / 32 * kAcross / kWarps;

  int row, column;  // in the tile
  int m, count;     // y's column, and the number of its rows
  std::int64_t at;  // in y

  __device__ TransposedPart(const Product& p, int round, int first, int first_m, int first_n) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int number = round * kWarps + warp;
    row = first + number / kAcross * 32 + lane;
    column = number % kAcross * 4;
    m = first_m + row;
    count = m < p.m ? p.n - first_n - column : 0;
    at = static_cast<std::int64_t>(first_n + column) * p.m + m;
  }
};

using Masks = float[TransposedPart::kRounds][4];

[[maybe_unused]] __device__ void load_masks(const Product& p, int first, int first_m, int first_n,
                                            Masks& masks) {
#pragma unroll
  for (int i = 0; i < TransposedPart::kRounds; ++i) {
    const TransposedPart part(p, i, first, first_m, first_n);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const bool there = p.mask != nullptr && k < part.count;
      masks[i][k] = there ? p.mask[part.at + std::int64_t{k} * p.m] : 1;
    }
  }
}

[[maybe_unused]] __device__ void store_transposed(const Product& p, const Shared& shared, int first,
                                                  int first_m, int first_n, const Masks& masks) {
#pragma unroll
  for (int i = 0; i < TransposedPart::kRounds; ++i) {
    const TransposedPart part(p, i, first, first_m, first_n);
    const float4 sum = whole_sum(shared, part.row, part.column);
    const float bias = p.bias != nullptr && part.count > 0 ? p.bias[part.m] : 0;
    const float sums[] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (k >= part.count) break;
      const float y = apply_epilogue(p, sums[k], bias);
      p.y[part.at + std::int64_t{k} * p.m] = masks[i][k] > 0 ? y : 0;
    }
  }
}

template <bool kTransposed>
__global__ void __launch_bounds__(kBlock, 1)
    multiply_halves(const __grid_constant__ Product p, const __grid_constant__ Operands operands) {
#ifdef TRAINGRAPH_WGMMA
  extern __shared__ std::byte memory[];
  auto& shared = *reinterpret_cast<Shared*>(memory + (1024 - shared_address(memory) % 1024) % 1024);
  const int thread = static_cast<int>(threadIdx.x), half = static_cast<int>(blockIdx.x) % 2;
  const int tile = static_cast<int>(blockIdx.x) / 2;
  const int first_m = tile % p.down * kTileRows, first_n = tile / p.down * kTileColumns;
  const int chunks = (p.inner + kTileFloats - 1) / kTileFloats;
  const int begin = chunks * half / 2, end = chunks * (half + 1) / 2;
  launch_dependents();
  const auto copy = [&](int chunk, int stage) {
    Stage& to = shared.stages[stage];
    Barrier& full = shared.full[stage];
    full.arrive_and_expect(sizeof(Stage));
    if constexpr (kTransposed) {
      copy_transposed_tile(to.blocks, operands.a, chunk * kTileFloats, first_m, full);
    } else {
      copy_tile(to.a, operands.a, first_m, chunk * kTileFloats, full);
    }
    copy_tile(to.b, operands.b, first_n, chunk * kTileFloats, full);
  };
  if (thread == kProductThreads) {
    for (int s = 0; s < kStages; ++s) {
      shared.full[s].init(1);
      shared.free[s].init(kProductThreads / 32);
    }
    fence_barrier_init();
    wait_for_predecessors();
    for (int k = begin; k < end && k < begin + kStages; ++k) copy(k, k - begin);
  }
  __syncthreads();
  if (thread == kProductThreads) {
    for (int k = begin + kStages; k < end; ++k) {
      const int stage = (k - begin) % kStages;
      shared.free[stage].wait((k - begin) / kStages % 2 ^ 1);
      copy(k, stage);
    }
  }
  __syncwarp();
  if (thread < kProductThreads) {
    const int warp = thread / 32, lane = thread % 32;
    float sum[32] = {};
    wait_for_predecessors();
    // In loops that it unrolls, the compiler serializes the products (C7515).
#pragma unroll 1
    for (int k = begin; k < end; ++k) {
      const int stage = (k - begin) % kStages;
      const Stage& from = shared.stages[stage];
      shared.full[stage].wait((k - begin) / kStages % 2);
      const std::uint64_t b = matrix_descriptor(from.b);
      if constexpr (kTransposed) {
        const auto a = transposed_fragments<kSteps>(from.a, warp / 4, 0);
        issue_wgmma<kSteps>([&](int eight) { multiply_k8(sum, a.value[eight], b + 2 * eight); });
        fence_async_proxy();
        wait_for_wgmma(sum);
        arrive(shared.free[stage]);
      } else {
        const std::uint64_t a = matrix_descriptor(from.a + warp / 4 * (kTileBytes / 2));
        issue_wgmma<kSteps>([&](int eight) { multiply_k8(sum, a + 2 * eight, b + 2 * eight); });
        wait_for_earlier_wgmma();
        if (lane == 0 && k > begin) shared.free[(stage + kStages - 1) % kStages].arrive();
      }
    }
    wait_for_wgmma(sum);
    float* const to = &shared.sum[warp * 16 + lane / 4][lane % 4 * 2];
#pragma unroll
    for (int v = 0; v < 32; v += 2) {
      *reinterpret_cast<float2*>(to + v % 4 / 2 * 8 * kPitch + v / 4 * 8) = {sum[v], sum[v + 1]};
    }
  }
  Masks masks;
  if constexpr (kTransposed) {
    if (thread < kProductThreads) load_masks(p, half * kOwnRows, first_m, first_n, masks);
  }
  sync_block_pair();
  if (thread < kProductThreads) {
    if constexpr (kTransposed) {
      store_transposed(p, shared, half * kOwnRows, first_m, first_n, masks);
    } else {
      store_rows(p, shared, half * kOwnRows, first_m, first_n);
    }
  }
  sync_block_pair();  // the other block has read this one's shared memory
#endif
}

constexpr std::int64_t kLeastInner = 512;

class ClusterSplitK final : public NodeKernel {
 public:
  // `masked` is the only reader of the product, and `mask` the other value that it reads, if any.
  ClusterSplitK(const ir::Graph& graph, const ir::Node& node, const ir::Node* masked = nullptr,
                ir::ValueId mask = ir::kNone)
      : NodeKernel(graph, node), mask_(mask) {
    if (masked != nullptr) outputs_ = masked->outputs;
    const auto& attributes = std::get<ir::MatmulAttributes>(node.attributes);
    const MatrixProblem problem = matrix_problem(graph, node);
    transposed_ = !problem.transpose_b;
    product_.m = static_cast<int>(transposed_ ? problem.columns : problem.rows);
    product_.n = static_cast<int>(transposed_ ? problem.rows : problem.columns);
    product_.inner = static_cast<int>(problem.inner);
    product_.down = static_cast<int>(blocks_for(product_.m, kTileRows));
    product_.alpha = static_cast<float>(attributes.alpha);
    const ir::AddReluEpilogue epilogue = *ir::add_relu_epilogue_of(attributes.epilogue);
    product_.relu = epilogue.relu;
    adds_ = epilogue.adds;
    blocks_ = 2 * blocks_for(product_.n, kTileColumns) * static_cast<unsigned>(product_.down);
    check(cudaFuncSetAttribute(kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
          "cudaFuncSetAttribute");
  }

  bool uses_dependent_launch() const override { return true; }
  bool uses_wgmma() const override { return true; }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    const auto *const a = in<float>(pointers, 0), *const b = in<float>(pointers, 1);
    Product product = product_;
    product.y = out<float>(pointers, 0);
    product.bias = adds_ ? in<float>(pointers, 2) : nullptr;
    product.mask = mask_ != ir::kNone ? reinterpret_cast<const float*>(pointers[mask_]) : nullptr;
    const int m = product.m, inner = product.inner;
    const Operands operands{
        transposed_ ? tensor_map(b, inner, m, kTileFloats) : tensor_map(a, m, inner, kTileRows),
        tensor_map(transposed_ ? a : b, product.n, inner, kTileColumns)};
    cudaLaunchAttribute pair{};
    pair.id = cudaLaunchAttributeClusterDimension;
    pair.val.clusterDim = {2, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = blocks_;
    config.blockDim = kBlock;
    config.dynamicSmemBytes = kSharedBytes;
    config.stream = stream;
    config.attrs = &pair;
    config.numAttrs = 1;
    check(cudaLaunchKernelEx(&config, kernel(), product, operands),
          "matmul, split-K over a cluster");
  }

 private:
  using Function = void (*)(Product, Operands);
  Function kernel() const { return transposed_ ? multiply_halves<true> : multiply_halves<false>; }

  Product product_{};
  ir::ValueId mask_;
  bool transposed_ = false, adds_ = false;
  unsigned blocks_;
};

// x of relu_gradient(y, x), in either order of the operands, with x of y's shape; none for other
// nodes.
ir::ValueId mask_of(const ir::Graph& graph, const ir::Node& node, ir::ValueId y) {
  if (node.op != ir::Op::elementwise || node.inputs.size() != 2) return ir::kNone;
  const ir::ScalarList& list = std::get<ir::ElementwiseAttributes>(node.attributes).list;
  if (!ir::is_relu_gradient(list)) return ir::kNone;
  const auto slope = static_cast<std::size_t>(list.code[0].x);
  const bool same = std::all_of(node.inputs.begin(), node.inputs.end(), [&](ir::ValueId id) {
    return graph.type(id) == graph.type(node.outputs[0]) && graph.value(id).layout.plain();
  });
  return same && node.inputs[slope] == y ? node.inputs[1 - slope] : ir::kNone;
}

}  // namespace

bool is_cluster_split_k(const ir::Graph& graph, const ir::Node& node, const Context& context) {
  for (const auto* operands : {&node.inputs, &node.outputs}) {
    for (ir::ValueId id : *operands) {
      if (graph.type(id).data_type != DataType::kFloat32) return false;
    }
  }
  const MatrixProblem p = matrix_problem(graph, node);
  const auto epilogue = matmul_epilogue(graph, node);
  if (!epilogue || epilogue->matrix != 0) return false;
  if (!context.wgmma || !std::get<ir::MatmulAttributes>(node.attributes).tf32 || p.transpose_a ||
      p.batch.extent != 1 || !p.outer.empty()) {
    return false;
  }
  const std::int64_t m = p.transpose_b ? p.rows : p.columns;
  const std::int64_t n = p.transpose_b ? p.columns : p.rows;
  const std::int64_t blocks =
      2 * ((m + kTileRows - 1) / kTileRows) * ((n + kTileColumns - 1) / kTileColumns);
  return p.inner >= kLeastInner && p.inner % 4 == 0 && p.columns % 4 == 0 &&
         blocks <= context.multiprocessors && blocks * 4 > context.multiprocessors * 3;
}

std::unique_ptr<Kernel> make_cluster_split_k(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<ClusterSplitK>(graph, node);
}

std::vector<FusedGroup> find_masked_products(const ir::Graph& graph, const Context& context) {
  const auto readers = ir::consumers(graph);
  std::vector<FusedGroup> result;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const ir::Node& product = graph.nodes[n];
    if (product.op != ir::Op::matmul) continue;
    const ir::ValueId y = product.outputs[0];
    const auto& read_by = readers[static_cast<std::size_t>(y)];
    if (read_by.size() != 1 || graph.value(y).keep) continue;
    const ir::Node& masked = graph.node(read_by[0]);
    const ir::ValueId mask = mask_of(graph, masked, y);
    if (mask != ir::kNone && is_cluster_split_k(graph, product, context) &&
        !matrix_problem(graph, product).transpose_b) {
      result.push_back({{static_cast<ir::NodeId>(n), read_by[0]},
                        std::make_unique<ClusterSplitK>(graph, product, &masked, mask),
                        y});
    }
  }
  return result;
}

}  // namespace traingraph::cuda
