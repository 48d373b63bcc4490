// Layer norm with its factors and shifts in one pass over memory. A warp or block has a row in
// registers. The gradient adds that of another branch, and sums its columns over the rows of a
// block on the way.
#include <type_traits>

#include "backends/cuda/device/storage.h"
#include "backends/cuda/kernel/node_kernel.h"
#include "backends/cuda/normalization/layer_norms.h"

namespace traingraph::cuda {
namespace {

constexpr int kWarps = kThreads / 32;
constexpr int kMostElements = 32;         // of a row in the registers of a thread
constexpr std::int64_t kFewColumns = 64;  // shorter rows are left to row_norm.cu
constexpr std::int64_t kWarpColumns = 32 * kMostElements;
constexpr std::int64_t kMostColumns = kThreads * kMostElements;

struct Matrix {
  std::int64_t rows;
  int columns;
  float epsilon;
};

// gamma or beta: float32, or of the rows' type.
struct PerColumn {
  const void* at;
  bool is_wide;

  template <class S, int kPack>
  __device__ Pack<float, kPack> load_wide(int column) const {
    if (is_wide) {
      Pack<float, kPack> pack;
      const auto* const from = static_cast<const float*>(at) + column;
#pragma unroll
      for (int v = 0; v < kPack; v += 4) {
        const auto four = load<4>(from + v);
#pragma unroll
        for (int k = 0; k < 4; ++k) pack.element[v + k] = four.element[k];
      }
      return pack;
    }
    return widen(load<kPack>(static_cast<const S*>(at) + column));
  }
};

// How kLanes threads share a row: kPacks packs each, neighbours having neighbouring ones.
template <class S, int kLanes, int kPacks>
struct Share {
  static constexpr int kPack = Pack<S>::kElements;
  static constexpr int kCount = kPacks * kPack;
  static constexpr int kRows = kThreads / kLanes;  // of a block
  using Elements = float[kCount];

  int columns;
  int lane = static_cast<int>(threadIdx.x) % kLanes;

  __device__ int column(int p) const { return (p * kLanes + lane) * kPack; }
  __device__ bool has(int p) const { return column(p) < columns; }
  __device__ static std::int64_t first_row() {
    return std::int64_t{blockIdx.x} * kRows + threadIdx.x / kLanes;
  }

  __device__ void read(const S* row, Elements& to) const {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      Pack<float, kPack> pack{};
      if (has(p)) pack = widen(load<kPack>(row + column(p)));
#pragma unroll
      for (int v = 0; v < kPack; ++v) to[p * kPack + v] = pack.element[v];
    }
  }
  __device__ void write(S* row, const Elements& from) const {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      Pack<float, kPack> pack;
#pragma unroll
      for (int v = 0; v < kPack; ++v) pack.element[v] = from[p * kPack + v];
      if (has(p)) store(row + column(p), narrow<S>(pack));
    }
  }

  __device__ float mean(const Elements& x) const {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < kCount; ++k) sum += x[k];
    return combine<kLanes>(sum, Sum()) / static_cast<float>(columns);
  }
  __device__ void subtract(Elements& x, float number) const {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (has(k / kPack)) x[k] -= number;
    }
  }
  // Turns x into x^ and returns 1 / deviation. What the mean has lost to rounding is found in the
  // centred row, and subtracted too.
  __device__ float normalize(Elements& x, float epsilon) const {
    subtract(x, mean(x));
    subtract(x, mean(x));
    float squares = 0;
#pragma unroll
    for (int k = 0; k < kCount; ++k) squares += x[k] * x[k];
    const float variance = combine<kLanes>(squares, Sum()) / static_cast<float>(columns);
    const float inverse = 1 / sqrtf(variance + epsilon);
#pragma unroll
    for (int k = 0; k < kCount; ++k) x[k] *= inverse;
    return inverse;
  }
};

// y (rows, columns) = x^ gamma + beta
template <class S, int kLanes, int kPacks>
__global__ void __launch_bounds__(kThreads)
    layer_norm(Matrix matrix, const S* x, PerColumn gamma, PerColumn beta, S* y) {
  using MyShare = Share<S, kLanes, kPacks>;
  constexpr int kPack = MyShare::kPack;
  const MyShare share{matrix.columns};
  const std::int64_t row = MyShare::first_row();
  if (row >= matrix.rows) return;
  typename MyShare::Elements e;
  share.read(x + row * matrix.columns, e);
  share.normalize(e, matrix.epsilon);
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (!share.has(p)) continue;
    const auto factor = gamma.load_wide<S, kPack>(share.column(p));
    const auto shift = beta.load_wide<S, kPack>(share.column(p));
#pragma unroll
    for (int v = 0; v < kPack; ++v) {
      e[p * kPack + v] = e[p * kPack + v] * factor.element[v] + shift.element[v];
    }
  }
  share.write(y + row * matrix.columns, e);
}

// Adds the sums of a block's warps, and writes them: (columns) of this block.
template <class S, int kLanes, int kPacks>
__device__ void put_sums(const Share<S, kLanes, kPacks>& share,
                         const float (&sums)[Share<S, kLanes, kPacks>::kCount], float* to) {
  constexpr int kPack = Share<S, kLanes, kPacks>::kPack;
  to += std::int64_t{blockIdx.x} * share.columns;
  if constexpr (kLanes == kThreads) {
#pragma unroll
    for (int k = 0; k < kPacks * kPack; ++k) {
      if (share.has(k / kPack)) to[share.column(k / kPack) + k % kPack] = sums[k];
    }
  } else {
    constexpr int kColumns = kLanes * kPack;
    __shared__ float parts[kWarps][kColumns];
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      __syncthreads();
#pragma unroll
      for (int v = 0; v < kPack; ++v) {
        parts[threadIdx.x / kLanes][share.lane * kPack + v] = sums[p * kPack + v];
      }
      __syncthreads();
      const int column = p * kColumns + static_cast<int>(threadIdx.x);
      if (threadIdx.x >= kColumns || column >= share.columns) continue;
      float sum = 0;
      for (int warp = 0; warp < kWarps; ++warp) sum += parts[warp][threadIdx.x];
      to[column] = sum;
    }
  }
}

// Sums over the rows of a block: (blocks, columns) each.
struct ColumnSums {
  float *of_gamma, *of_beta, *of_dx;
};

// dx (rows, columns) = (g - mean of g - x^ mean of g x^) / deviation + added, where g = dy gamma
template <class S, int kLanes, int kPacks>
__global__ void __launch_bounds__(kThreads)
    layer_norm_gradient(Matrix matrix, const S* dy, const S* x, PerColumn gamma, const S* added,
                        S* dx, ColumnSums sums) {
  using MyShare = Share<S, kLanes, kPacks>;
  constexpr int kPack = MyShare::kPack, kCount = MyShare::kCount;
  const MyShare share{matrix.columns};
  typename MyShare::Elements of_gamma = {}, of_beta = {}, of_dx = {};
  for (std::int64_t row = MyShare::first_row(); row < matrix.rows;
       row += std::int64_t{gridDim.x} * MyShare::kRows) {
    const std::int64_t first = row * matrix.columns;
    typename MyShare::Elements x_hat, g, other = {};
    share.read(x + first, x_hat);
    share.read(dy + first, g);
    if (added != nullptr) share.read(added + first, other);
    const float inverse = share.normalize(x_hat, matrix.epsilon);
    float sum = 0, products = 0;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      Pack<float, kPack> factor{};
      if (share.has(p)) factor = gamma.load_wide<S, kPack>(share.column(p));
#pragma unroll
      for (int v = 0; v < kPack; ++v) {
        const int k = p * kPack + v;
        of_gamma[k] += g[k] * x_hat[k];
        of_beta[k] += g[k];
        g[k] *= factor.element[v];
        sum += g[k];
        products += g[k] * x_hat[k];
      }
    }
    const float mean = combine<kLanes>(sum, Sum()) / static_cast<float>(matrix.columns);
    const float along = combine<kLanes>(products, Sum()) / static_cast<float>(matrix.columns);
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      g[k] = inverse * ((g[k] - mean) - x_hat[k] * along) + other[k];
      of_dx[k] += g[k];
    }
    share.write(dx + first, g);
  }
  put_sums<S, kLanes, kPacks>(share, of_gamma, sums.of_gamma);
  put_sums<S, kLanes, kPacks>(share, of_beta, sums.of_beta);
  put_sums<S, kLanes, kPacks>(share, of_dx, sums.of_dx);
}

Matrix matrix_of(const ir::Graph& graph, const ir::Node& node) {
  const auto& attributes = std::get<ir::RowNormAttributes>(node.attributes);
  const Shape& shape = graph.type(node.outputs[0]).shape;
  Matrix matrix{1, 1, static_cast<float>(attributes.epsilon)};
  for (std::size_t k = 0; k < shape.size(); ++k) {
    if (k < static_cast<std::size_t>(attributes.axis)) matrix.rows *= shape[k];
    if (k >= static_cast<std::size_t>(attributes.axis)) {
      matrix.columns *= static_cast<int>(shape[k]);
    }
  }
  return matrix;
}

template <class S>
class LayerNorm final : public NodeKernel {
 public:
  LayerNorm(const ir::Graph& graph, const ir::Node& node)
      : NodeKernel(graph, node), matrix_(matrix_of(graph, node)) {
    const auto is_wide = [&](std::size_t input) {
      return graph.type(node.inputs[input]).data_type == DataType::kFloat32;
    };
    is_gradient_ = node.op == ir::Op::row_norm_gradient;
    wide_gamma_ = is_wide(is_gradient_ ? 2 : 1);
    wide_beta_ = !is_gradient_ && is_wide(2);
    if (is_gradient_) parts_ = static_cast<unsigned>(graph.type(node.outputs[1]).shape[0]);
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (matrix_.columns <= kWarpColumns) {
      launch_lanes<32>(pointers, stream);
    } else {
      launch_lanes<kThreads>(pointers, stream);
    }
    check_launch("layer norm");
  }

 private:
  template <int kLanes>
  void launch_lanes(Pointers pointers, cudaStream_t stream) const {
    constexpr int kAcross = kLanes * Pack<S>::kElements;  // columns of one pack per thread
    const int packs = (matrix_.columns + kAcross - 1) / kAcross;
    const auto run = [&](auto count) {
      launch_packs<kLanes, decltype(count)::value>(pointers, stream);
    };
    if (packs == 1) return run(std::integral_constant<int, 1>());
    if (packs == 2) return run(std::integral_constant<int, 2>());
    if (packs == 3) return run(std::integral_constant<int, 3>());
    if (packs == 4) return run(std::integral_constant<int, 4>());
    if constexpr (sizeof(S) == 4) {
      if (packs <= 6) return run(std::integral_constant<int, 6>());
      run(std::integral_constant<int, 8>());
    }
  }

  template <int kLanes, int kPacks>
  void launch_packs(Pointers pointers, cudaStream_t stream) const {
    if (is_gradient_) {
      const ColumnSums sums{out<float>(pointers, 1), out<float>(pointers, 2),
                            out<float>(pointers, 3)};
      layer_norm_gradient<S, kLanes, kPacks><<<parts_, kThreads, 0, stream>>>(
          matrix_, in<S>(pointers, 0), in<S>(pointers, 1),
          PerColumn{in<std::byte>(pointers, 2), wide_gamma_},
          inputs_.size() > 3 ? in<S>(pointers, 3) : nullptr, out<S>(pointers, 0), sums);
    } else {
      layer_norm<S, kLanes, kPacks><<<blocks_for(matrix_.rows * kLanes), kThreads, 0, stream>>>(
          matrix_, in<S>(pointers, 0), PerColumn{in<std::byte>(pointers, 1), wide_gamma_},
          PerColumn{in<std::byte>(pointers, 2), wide_beta_}, out<S>(pointers, 0));
    }
  }

  Matrix matrix_;
  bool is_gradient_, wide_gamma_, wide_beta_;
  unsigned parts_ = 1;
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  const auto& attributes = std::get<ir::RowNormAttributes>(node.attributes);
  if (!attributes.affine) return Support::no("layer norm: no factors");
  const DataType type = graph.type(node.outputs[0]).data_type;
  if (type != DataType::kFloat32 && !ir::is_half(type)) {
    return Support::no("layer norm: float32 and 16 bits");
  }
  const Shape& shape = graph.type(node.outputs[0]).shape;
  const Shape row(shape.begin() + attributes.axis, shape.end());
  std::int64_t columns = 1;
  for (std::int64_t extent : row) columns *= extent;
  const std::int64_t pack = 16 / static_cast<std::int64_t>(element_bytes(type));
  if (columns < kFewColumns || columns > kMostColumns || columns % pack != 0) {
    return Support::no("layer norm: rows of 64 to 8192 elements, in packs of 16 bytes");
  }
  const bool is_gradient = node.op == ir::Op::row_norm_gradient;
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    const ir::Type& operand = graph.type(node.inputs[k]);
    const bool per_column = is_gradient ? k == 2 : k > 0;
    if (operand.shape != (per_column ? row : shape)) return Support::no("layer norm: other shapes");
    const bool wide = per_column && operand.data_type == DataType::kFloat32;
    if (operand.data_type != type && !wide) return Support::no("layer norm: other types");
  }
  return {};
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context&) {
  switch (graph.type(node.outputs[0]).data_type) {
    case DataType::kFloat16:
      return std::make_unique<LayerNorm<__half>>(graph, node);
    case DataType::kBFloat16:
      return std::make_unique<LayerNorm<__nv_bfloat16>>(graph, node);
    default:
      return std::make_unique<LayerNorm<float>>(graph, node);
  }
}

}  // namespace

std::int64_t layer_norm_parts(std::int64_t rows, std::int64_t columns, int multiprocessors) {
  const std::int64_t lanes = columns <= kWarpColumns ? 32 : kThreads;
  const std::int64_t rows_at_once = kThreads / lanes;
  // Blocks of few registers fit twice on a multiprocessor.
  const std::int64_t blocks = columns <= lanes * 16 ? 2 : 1;
  return std::min(blocks * multiprocessors, (rows + rows_at_once - 1) / rows_at_once);
}

std::vector<KernelEntry> layer_norm_entries() {
  return {{ir::Op::row_norm, supports, make, nullptr, nullptr},
          {ir::Op::row_norm_gradient, supports, make, nullptr, nullptr}};
}

}  // namespace traingraph::cuda
