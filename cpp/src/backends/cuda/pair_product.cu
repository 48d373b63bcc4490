#include "backends/cuda/pair_product.h"

#include <algorithm>

#include "backends/cuda/check.h"
#include "backends/cuda/early.h"
#include "backends/cuda/warpgroups.h"

namespace traingraph::cuda {
namespace {

// A tile of the result is kTileRows x kThinRows: of the matrix that has the rows of a tile, `tall`,
// and of `thin`. Two warpgroups multiply, 64 rows of the tall one each; one thread of the last warp
// begins the copies.
constexpr int kThinRows = 64, kThinBytes = kThinRows * kTileFloats * 4;
constexpr int kProductThreads = 256, kBlock = kProductThreads + 32;
[[maybe_unused]] constexpr int kEights = kTileFloats / 8;  // steps of a product
constexpr int kStages = 6;
constexpr int kPitch = kThinRows + 8;    // floats from row to row of sums: no conflicts
constexpr int kOwnRows = kTileRows / 2;  // of the tile's sums, added up and stored by one block
struct Stage {
  union {
    std::byte tall[kTileBytes], blocks[kTileRows / kTileFloats][kBlockBytes];
  };
  std::byte thin[kThinBytes];
};
// Begins at a multiple of 1024.
struct Shared {
  Stage stages[kStages];
  float sum[kTileRows][kPitch];
  Barrier full[kStages], free[kStages];
};
constexpr int kSharedBytes = sizeof(Shared) + 1024;

// tall and thin have rows of `inner` floats, or tall lies turned. y's rows are those of tall, or
// of thin where tall lies turned.
struct Product {
  int tall_rows, thin_rows, inner;
  int down;  // tiles of the tall one
  float alpha;
  bool relu;
  const float* bias;  // null, or one number per column of y
  const float* mask;  // null, or of y's shape: y is nothing where this is not above zero
  float* y;
};

struct Operands {
  CUtensorMap tall, thin;
};

__device__ float ended(const Product& p, float sum, float bias) {
  const float x = sum * p.alpha + bias;
  return p.relu ? fmaxf(x, 0) : x;
}

// Of the pair's own rows of the tile at (tall, thin), the sums of both blocks.
__device__ float4 whole_sum(const Shared& shared, int row, int column) {
  const float* const at = &shared.sum[row][column];
  const float4 x = load_of(0, at), y = load_of(1, at);
  return {x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w};
}

[[maybe_unused]] __device__ void store_rows(const Product& p, const Shared& shared, int first,
                                            int tall, int thin) {
  constexpr int kAcross = kThinRows / 4;
#pragma unroll
  for (int i = 0; i < kOwnRows * kAcross / kProductThreads; ++i) {
    const int at = i * kProductThreads + static_cast<int>(threadIdx.x);
    const int row = first + at / kAcross, column = thin + at % kAcross * 4;
    const float4 sum = whole_sum(shared, row, at % kAcross * 4);
    if (tall + row >= p.tall_rows || column >= p.thin_rows) continue;
    float4 bias{};
    if (p.bias != nullptr) bias = *reinterpret_cast<const float4*>(p.bias + column);
    *reinterpret_cast<float4*>(p.y + static_cast<std::int64_t>(tall + row) * p.thin_rows +
                               column) = {ended(p, sum.x, bias.x), ended(p, sum.y, bias.y),
                                          ended(p, sum.z, bias.z), ended(p, sum.w, bias.w)};
  }
}

// What a thread stores of a turned tile, four of its columns at a time: threads of a warp have rows
// beside each other, which are columns of y.
struct TurnedPart {
  static constexpr int kAcross = kThinRows / 4, kWarps = kProductThreads / 32;
  static constexpr int kRounds = kOwnRows / 32 * kAcross / kWarps;

  int row, column;  // in the tile
  int tall, count;  // y's column, and how many of its rows there are
  std::int64_t at;  // in y

  __device__ TurnedPart(const Product& p, int round, int first, int first_tall, int first_thin) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int number = round * kWarps + warp;
    row = first + number / kAcross * 32 + lane;
    column = number % kAcross * 4;
    tall = first_tall + row;
    count = tall < p.tall_rows ? p.thin_rows - first_thin - column : 0;
    at = static_cast<std::int64_t>(first_thin + column) * p.tall_rows + tall;
  }
};

using Masks = float[TurnedPart::kRounds][4];

[[maybe_unused]] __device__ void load_masks(const Product& p, int first, int tall, int thin,
                                            Masks& masks) {
#pragma unroll
  for (int i = 0; i < TurnedPart::kRounds; ++i) {
    const TurnedPart part(p, i, first, tall, thin);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const bool there = p.mask != nullptr && k < part.count;
      masks[i][k] = there ? p.mask[part.at + std::int64_t{k} * p.tall_rows] : 1;
    }
  }
}

[[maybe_unused]] __device__ void store_turned(const Product& p, const Shared& shared, int first,
                                              int tall, int thin, const Masks& masks) {
#pragma unroll
  for (int i = 0; i < TurnedPart::kRounds; ++i) {
    const TurnedPart part(p, i, first, tall, thin);
    const float4 sum = whole_sum(shared, part.row, part.column);
    const float bias = p.bias != nullptr && part.count > 0 ? p.bias[part.tall] : 0;
    const float sums[] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      if (k >= part.count) break;
      const float y = ended(p, sums[k], bias);
      p.y[part.at + std::int64_t{k} * p.tall_rows] = masks[i][k] > 0 ? y : 0;
    }
  }
}

template <bool kTurned>
__global__ void __launch_bounds__(kBlock, 1)
    multiply_halves(const __grid_constant__ Product p, const __grid_constant__ Operands operands) {
#ifdef TRAINGRAPH_WARPGROUPS
  extern __shared__ std::byte memory[];
  auto& shared = *reinterpret_cast<Shared*>(memory + (1024 - shared_address(memory) % 1024) % 1024);
  const int thread = static_cast<int>(threadIdx.x), half = static_cast<int>(blockIdx.x) % 2;
  const int tile = static_cast<int>(blockIdx.x) / 2;
  const int tall = tile % p.down * kTileRows, thin = tile / p.down * kThinRows;
  const int chunks = (p.inner + kTileFloats - 1) / kTileFloats;
  const int begin = chunks * half / 2, end = chunks * (half + 1) / 2;
  let_others_begin();
  const auto copy = [&](int chunk, int stage) {
    Stage& to = shared.stages[stage];
    Barrier& full = shared.full[stage];
    full.expect(sizeof(Stage));
    if constexpr (kTurned) {
      copy_blocks(to.blocks, operands.tall, chunk * kTileFloats, tall, full);
    } else {
      copy_tile(to.tall, operands.tall, tall, chunk * kTileFloats, full);
    }
    copy_tile(to.thin, operands.thin, thin, chunk * kTileFloats, full);
  };
  if (thread == kProductThreads) {
    for (int s = 0; s < kStages; ++s) {
      shared.full[s].start(1);
      shared.free[s].start(kProductThreads / 32);
    }
    publish_barriers();
    wait_for_needed();
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
    wait_for_needed();
    // Of loops that it unrolls the compiler makes each product wait for the one before (C7515).
#pragma unroll 1
    for (int k = begin; k < end; ++k) {
      const int stage = (k - begin) % kStages;
      const Stage& from = shared.stages[stage];
      shared.full[stage].wait((k - begin) / kStages % 2);
      const std::uint64_t b = operand(from.thin);
      if constexpr (kTurned) {
        const auto a = turned_operand<kEights>(from.tall, warp / 4, 0);
        begin_products<kEights>(
            [&](int eight) { multiply_eight(sum, a.value[eight], b + 2 * eight); });
        end_reads();
        wait_for_products(sum);
        arrive(shared.free[stage]);
      } else {
        const std::uint64_t a = operand(from.tall + warp / 4 * (kTileBytes / 2));
        begin_products<kEights>(
            [&](int eight) { multiply_eight(sum, a + 2 * eight, b + 2 * eight); });
        wait_for_products_before();
        if (lane == 0 && k > begin) shared.free[(stage + kStages - 1) % kStages].arrive();
      }
    }
    wait_for_products(sum);
    float* const to = &shared.sum[warp * 16 + lane / 4][lane % 4 * 2];
#pragma unroll
    for (int v = 0; v < 32; v += 2) {
      *reinterpret_cast<float2*>(to + v % 4 / 2 * 8 * kPitch + v / 4 * 8) = {sum[v], sum[v + 1]};
    }
  }
  Masks masks;
  if constexpr (kTurned) {
    if (thread < kProductThreads) load_masks(p, half * kOwnRows, tall, thin, masks);
  }
  meet_pair();
  if (thread < kProductThreads) {
    if constexpr (kTurned) {
      store_turned(p, shared, half * kOwnRows, tall, thin, masks);
    } else {
      store_rows(p, shared, half * kOwnRows, tall, thin);
    }
  }
  meet_pair();  // the other one has read what it needs
#endif
}

constexpr std::int64_t kLeastInner = 512;

class PairProduct final : public NodeKernel {
 public:
  // `masked` is what alone reads the product, and `mask` the other one that it reads, if at all.
  PairProduct(const ir::Graph& graph, const ir::Node& node, const ir::Node* masked = nullptr,
              ir::ValueId mask = ir::kNone)
      : NodeKernel(graph, node), mask_(mask) {
    if (masked != nullptr) outputs_ = masked->outputs;
    const auto& attributes = std::get<ir::MatmulAttributes>(node.attributes);
    const MatrixProblem problem = matrix_problem(graph, node);
    turned_ = !problem.transpose_b;
    product_.tall_rows = static_cast<int>(turned_ ? problem.columns : problem.rows);
    product_.thin_rows = static_cast<int>(turned_ ? problem.rows : problem.columns);
    product_.inner = static_cast<int>(problem.inner);
    product_.down = static_cast<int>(blocks_for(product_.tall_rows, kTileRows));
    product_.alpha = static_cast<float>(attributes.alpha);
    const ir::Ending ending = *ir::ending_of(attributes.epilogue);
    product_.relu = ending.relu;
    adds_ = ending.adds;
    blocks_ = 2 * blocks_for(product_.thin_rows, kThinRows) * static_cast<unsigned>(product_.down);
    check(cudaFuncSetAttribute(kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
          "cudaFuncSetAttribute");
  }

  bool begins_early() const override { return true; }
  bool has_warpgroups() const override { return true; }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    const auto *const a = in<float>(pointers, 0), *const b = in<float>(pointers, 1);
    Product product = product_;
    product.y = out<float>(pointers, 0);
    product.bias = adds_ ? in<float>(pointers, 2) : nullptr;
    product.mask = mask_ != ir::kNone ? reinterpret_cast<const float*>(pointers[mask_]) : nullptr;
    const int tall_rows = product.tall_rows, inner = product.inner;
    const Operands operands{turned_ ? tensor_map(b, inner, tall_rows, kTileFloats)
                                    : tensor_map(a, tall_rows, inner, kTileRows),
                            tensor_map(turned_ ? a : b, product.thin_rows, inner, kThinRows)};
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
    check(cudaLaunchKernelEx(&config, kernel(), product, operands), "a product of pairs of blocks");
  }

 private:
  using Function = void (*)(Product, Operands);
  Function kernel() const { return turned_ ? multiply_halves<true> : multiply_halves<false>; }

  Product product_{};
  ir::ValueId mask_;
  bool turned_ = false, adds_ = false;
  unsigned blocks_;
};

// Of relu_gradient(y, x), in any order of the two, with x of y's shape: x. None of other nodes.
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

bool is_pair_product(const ir::Graph& graph, const ir::Node& node, const Context& context) {
  for (const auto* operands : {&node.inputs, &node.outputs}) {
    for (ir::ValueId id : *operands) {
      if (graph.type(id).data_type != DataType::kFloat32) return false;
    }
  }
  const MatrixProblem p = matrix_problem(graph, node);
  if (!context.warpgroups || !std::get<ir::MatmulAttributes>(node.attributes).tf32 ||
      p.transpose_a || p.batch.extent != 1 || !p.outer.empty()) {
    return false;
  }
  const std::int64_t tall = p.transpose_b ? p.rows : p.columns;
  const std::int64_t thin = p.transpose_b ? p.columns : p.rows;
  const std::int64_t blocks =
      2 * ((tall + kTileRows - 1) / kTileRows) * ((thin + kThinRows - 1) / kThinRows);
  return p.inner >= kLeastInner && p.inner % 4 == 0 && p.columns % 4 == 0 &&
         blocks <= context.multiprocessors && blocks * 4 > context.multiprocessors * 3;
}

std::unique_ptr<Kernel> make_pair_product(const ir::Graph& graph, const ir::Node& node) {
  return std::make_unique<PairProduct>(graph, node);
}

std::vector<Group> find_masked_products(const ir::Graph& graph, const Context& context) {
  const auto readers = ir::consumers(graph);
  std::vector<Group> result;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const ir::Node& product = graph.nodes[n];
    if (product.op != ir::Op::matmul) continue;
    const ir::ValueId y = product.outputs[0];
    const auto& read_by = readers[static_cast<std::size_t>(y)];
    if (read_by.size() != 1 || graph.value(y).keep) continue;
    const ir::Node& masked = graph.node(read_by[0]);
    const ir::ValueId mask = mask_of(graph, masked, y);
    if (mask != ir::kNone && is_pair_product(graph, product, context) &&
        !matrix_problem(graph, product).transpose_b) {
      result.push_back({{static_cast<ir::NodeId>(n), read_by[0]},
                        std::make_unique<PairProduct>(graph, product, &masked, mask),
                        y});
    }
  }
  return result;
}

}  // namespace traingraph::cuda
