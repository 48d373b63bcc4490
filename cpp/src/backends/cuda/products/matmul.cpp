// Matrix products through cuBLASLt, in exact float32 unless the node allows TF32. The algorithm is
// the heuristic's first, except where `has_wave_of_small_tiles` applies, so every process uses the
// same one. Its workspace is in the memory plan.
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "backends/cuda/kernel/check_library.h"
#include "backends/cuda/products/cluster_split_k.h"
#include "backends/cuda/products/matmul.h"

namespace traingraph::cuda {
namespace {

constexpr std::size_t kMostWorkspace = std::size_t{32} << 20;
// Alignment of the workspace's address. The memory plan guarantees only 64.
constexpr std::size_t kWorkspaceAlignment = 256;

// Leading axes of y, outermost first, merged where both operands are contiguous.
std::vector<MatrixAxis> leading_axes(const Shape& a, const Shape& b, const Shape& y) {
  auto distances = [&](const Shape& shape) {
    std::vector<std::int64_t> result(y.size() - 2, 0);
    std::int64_t step = 1;
    for (std::size_t k = 2; k < shape.size(); ++k) {
      const std::int64_t extent = shape[shape.size() - 1 - k];
      if (extent > 1) result[y.size() - 1 - k] = step;
      step *= extent;
    }
    return result;
  };
  const std::vector<std::int64_t> from_a = distances(a), from_b = distances(b);
  std::vector<MatrixAxis> axes;
  for (std::size_t k = 0; k + 2 < y.size(); ++k) {
    if (y[k] == 1) continue;
    const MatrixAxis axis{y[k], from_a[k], from_b[k]};
    const bool joins = !axes.empty() && axes.back().a == axis.a * axis.extent &&
                       axes.back().b == axis.b * axis.extent;
    if (joins) {
      axes.back() = {axes.back().extent * axis.extent, axis.a, axis.b};
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

}  // namespace

MatrixProblem matrix_problem(const ir::Graph& graph, const ir::Node& node) {
  const auto& attributes = std::get<ir::MatmulAttributes>(node.attributes);
  const Shape& a = graph.type(node.inputs[0]).shape;
  const Shape& b = graph.type(node.inputs[1]).shape;
  const Shape& y = graph.type(node.outputs[0]).shape;
  MatrixProblem p{};
  p.rows = y[y.size() - 2];
  p.columns = y[y.size() - 1];
  p.inner = attributes.transpose_a ? a[a.size() - 2] : a[a.size() - 1];
  p.transpose_a = attributes.transpose_a;
  p.transpose_b = attributes.transpose_b;
  p.batch = {1, 0, 0};
  p.outer = leading_axes(a, b, y);
  if (!p.outer.empty()) {
    p.batch = p.outer.back();
    p.outer.pop_back();
  }
  // All matrices share b: then the matrices a are the rows of one matrix.
  if (p.batch.a == 1 && p.batch.b == 0 && !p.transpose_a && p.outer.empty()) {
    p.rows *= p.batch.extent;
    p.batch = {1, 0, 0};
  }
  return p;
}

namespace {

// Whether a list is the sum of its inputs, each read once, then relu if anything.
bool is_sum(const ir::ScalarList& list, bool& relu) {
  std::vector<int> reads(static_cast<std::size_t>(list.registers()), 0);
  relu = false;
  for (const ir::Instruction& code : list.code) {
    if (relu) return false;
    relu = code.function == ir::Scalar::relu;
    if (!relu && code.function != ir::Scalar::add) return false;
    ++reads[static_cast<std::size_t>(code.x)];
    if (!relu) ++reads[static_cast<std::size_t>(code.y)];
  }
  return list.results == std::vector<int>{list.registers() - 1} &&
         std::all_of(reads.begin(), reads.end() - 1, [](int count) { return count == 1; });
}

}  // namespace

std::optional<MatmulEpilogue> matmul_epilogue(const ir::Graph& graph, const ir::Node& node,
                                              const ir::ScalarList& list,
                                              const std::vector<ir::ValueId>& extra) {
  MatmulEpilogue epilogue;
  if (list.empty()) return epilogue;
  const ir::Type& y = graph.type(node.outputs[0]);
  const MatrixProblem p = matrix_problem(graph, node);
  const bool is_one_product = p.batch.extent == 1 && p.outer.empty();
  if (!is_one_product || y.data_type == DataType::kFloat64 || !is_sum(list, epilogue.relu)) {
    return {};
  }
  for (std::size_t k = 0; k < extra.size(); ++k) {
    const ir::Type& type = graph.type(extra[k]);
    const bool per_column =
        !type.shape.empty() && type.shape.back() == p.columns && type.elements() == p.columns;
    std::size_t& place = per_column ? epilogue.bias : epilogue.matrix;
    if (type.data_type != y.data_type || place != 0) return {};
    if (!per_column && type.shape != y.shape) return {};
    place = k + 2;
  }
  return epilogue;
}

std::optional<MatmulEpilogue> matmul_epilogue(const ir::Graph& graph, const ir::Node& node) {
  return matmul_epilogue(graph, node, std::get<ir::MatmulAttributes>(node.attributes).epilogue,
                         {node.inputs.begin() + 2, node.inputs.end()});
}

namespace {

bool fuses(const ir::Graph& graph, const ir::Node& node, const ir::ScalarList& list,
           const std::vector<ir::ValueId>& extra) {
  const auto epilogue = matmul_epilogue(graph, node, list, extra);
  if (!epilogue || list.empty()) return false;
  // A small product stays with its own kernel.
  return epilogue->matrix == 0 || !is_small_matmul(graph, node);
}

cudaDataType_t blas_type(DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return CUDA_R_64F;
    case DataType::kFloat16:
      return CUDA_R_16F;
    case DataType::kBFloat16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

constexpr std::int64_t kSmallTile = 64, kLongSum = 1024;
constexpr int kMostCandidates = 8;

// Whether tiles of 64 x 64 fill the device almost exactly once, while larger ones would leave half
// of it idle. With long sums and both operands contiguous along them, small tiles are faster, but
// the heuristic ranks them too low (256 x 2048 results of 2048: 11.7 us instead of 15.5 on an
// H200).
bool has_wave_of_small_tiles(const MatrixProblem& p, int multiprocessors) {
  const std::int64_t tiles =
      (p.rows + kSmallTile - 1) / kSmallTile * ((p.columns + kSmallTile - 1) / kSmallTile);
  return p.batch.extent == 1 && !p.transpose_a && p.transpose_b && p.inner >= kLongSum &&
         tiles <= multiprocessors && tiles * 4 > multiprocessors * 3;
}

bool has_small_tiles(const cublasLtMatmulAlgo_t& algorithm) {
  std::uint32_t tile = CUBLASLT_MATMUL_TILE_UNDEFINED;
  std::size_t written = 0;
  check(cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID, &tile,
                                             sizeof tile, &written),
        "cublasLtMatmulAlgoConfigGetAttribute");
  return tile == CUBLASLT_MATMUL_TILE_64x64;
}

class Matmul final : public NodeKernel {
 public:
  Matmul(const ir::Graph& graph, const ir::Node& node, const Context& context)
      : NodeKernel(graph, node), blas_(context.blas) {
    const auto& attributes = std::get<ir::MatmulAttributes>(node.attributes);
    problem_ = matrix_problem(graph, node);
    epilogue_ = *matmul_epilogue(graph, node);
    type_ = graph.type(node.inputs[0]).data_type;
    const ir::Type& result = graph.type(node.outputs[0]);
    result_type_ = result.data_type;
    wide_ = type_ == DataType::kFloat64;
    bytes_ = static_cast<std::int64_t>(element_bytes(type_));
    result_bytes_ = static_cast<std::size_t>(result.elements()) * element_bytes(result_type_);
    alpha_ = attributes.alpha;
    narrow_alpha_ = static_cast<float>(alpha_);
    if (result_bytes_ > 0 && problem_.inner > 0) {
      prepare(attributes.tf32, context.multiprocessors);
    }
  }

  std::size_t workspace_bytes() const override {
    return workspace_bytes_ > 0 ? workspace_bytes_ + kWorkspaceAlignment - 1 : 0;
  }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    if (result_bytes_ == 0) return;
    auto* const y = out<std::byte>(pointers, 0);
    if (problem_.inner == 0) {  // a product with an epilogue never has an empty sum
      cuda::check(cudaMemsetAsync(y, 0, result_bytes_, stream), "cudaMemsetAsync");
      return;
    }
    if (epilogue_.bias != 0) {
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER,
          static_cast<const void*>(in<std::byte>(pointers, epilogue_.bias)));
    }
    const auto* const added = epilogue_.matrix != 0 ? in<std::byte>(pointers, epilogue_.matrix) : y;
    void* const own = workspace_bytes_ > 0 ? aligned(workspace<std::byte>(pointers)) : nullptr;
    std::int64_t products = 1;
    for (const MatrixAxis& axis : problem_.outer) products *= axis.extent;
    for (std::int64_t k = 0; k < products; ++k) {
      std::int64_t a = 0, b = 0, rest = k;
      for (std::size_t at = problem_.outer.size(); at-- > 0;) {
        const MatrixAxis& axis = problem_.outer[at];
        a += rest % axis.extent * axis.a;
        b += rest % axis.extent * axis.b;
        rest /= axis.extent;
      }
      multiply(in<std::byte>(pointers, 0) + a * problem_.rows * problem_.inner * bytes_,
               in<std::byte>(pointers, 1) + b * problem_.inner * problem_.columns * bytes_,
               y + k * problem_.batch.extent * problem_.rows * problem_.columns *
                       static_cast<std::int64_t>(element_bytes(result_type_)),
               added, own, stream);
    }
  }

 private:
  static std::byte* aligned(std::byte* at) {
    return at + -reinterpret_cast<std::uintptr_t>(at) % kWorkspaceAlignment;
  }

  // cuBLASLt is column-major, so it sees every matrix transposed: yᵀ = op(b)ᵀ op(a)ᵀ.
  void prepare(bool tf32, int multiprocessors) {
    const cudaDataType_t type = blas_type(type_);
    const bool cuts = tf32 && type_ == DataType::kFloat32;
    const cublasComputeType_t narrow = cuts ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    check(cublasLtMatmulDescInit(&operation_, wide_ ? CUBLAS_COMPUTE_64F : narrow,
                                 wide_ ? CUDA_R_64F : CUDA_R_32F),
          "cublasLtMatmulDescInit");
    const cublasOperation_t left = problem_.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t right = problem_.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(CUBLASLT_MATMUL_DESC_TRANSA, left);
    set(CUBLASLT_MATMUL_DESC_TRANSB, right);
    const bool has_bias = epilogue_.bias != 0;
    if (has_bias || epilogue_.relu) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE,
          has_bias ? (epilogue_.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS)
                   : CUBLASLT_EPILOGUE_RELU);
    }
    // The heuristic only reads the alignment. Each launch sets the real address.
    if (has_bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<const void*>(16));
    const std::int64_t m = problem_.columns, n = problem_.rows, k = problem_.inner;
    describe(b_, type, problem_.transpose_b ? k : m, problem_.transpose_b ? m : k,
             problem_.batch.b);
    describe(a_, type, problem_.transpose_a ? n : k, problem_.transpose_a ? k : n,
             problem_.batch.a);
    describe(y_, blas_type(result_type_), m, n, 1);
    cublasLtMatmulPreferenceOpaque_t preference;
    check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
    auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
            "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(problem_.inner * m));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(problem_.inner * n));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(m * n));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(m * n));
    const bool wants_small_tiles = cuts && has_wave_of_small_tiles(problem_, multiprocessors);
    std::array<cublasLtMatmulHeuristicResult_t, kMostCandidates> found{};
    int count = 0;
    check(cublasLtMatmulAlgoGetHeuristic(blas_, &operation_, &b_, &a_, &y_, &y_, &preference,
                                         wants_small_tiles ? kMostCandidates : 1, found.data(),
                                         &count),
          "cublasLtMatmulAlgoGetHeuristic");
    if (count < 1) check(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic");
    auto* chosen = found.data();
    if (wants_small_tiles) {
      auto* const end = found.data() + count;
      auto* const small = std::find_if(found.data(), end, [](const auto& candidate) {
        return candidate.state == CUBLAS_STATUS_SUCCESS && has_small_tiles(candidate.algo);
      });
      if (small != end) chosen = small;
    }
    algorithm_ = chosen->algo;
    workspace_bytes_ = chosen->workspaceSize;
  }

  // The alignment of every matrix's address. Operands begin at multiples of 16.
  std::uint32_t alignment(std::int64_t matrix) const {
    if (problem_.outer.empty()) return 16;
    const std::int64_t bytes = matrix * bytes_;
    return static_cast<std::uint32_t>(std::min<std::int64_t>(16, bytes & -bytes));
  }

  template <class V>
  void set(cublasLtMatmulDescAttributes_t attribute, V value) const {
    check(cublasLtMatmulDescSetAttribute(&operation_, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  }

  // `step` is the distance of two matrices of the batch, in matrices.
  void describe(cublasLtMatrixLayoutOpaque_t& layout, cudaDataType_t type, std::int64_t rows,
                std::int64_t columns, std::int64_t step) const {
    check(cublasLtMatrixLayoutInit(&layout, type, static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), rows),
          "cublasLtMatrixLayoutInit");
    auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, auto value) {
      check(cublasLtMatrixLayoutSetAttribute(&layout, attribute, &value, sizeof value),
            "cublasLtMatrixLayoutSetAttribute");
    };
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(problem_.batch.extent));
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, std::int64_t{step * rows * columns});
  }

  void multiply(const std::byte* a, const std::byte* b, std::byte* y, const std::byte* added,
                void* workspace, cudaStream_t stream) const {
    const double zero = 0;
    const float narrow_beta = epilogue_.matrix != 0 ? 1 : 0;
    const void* const alpha = wide_ ? static_cast<const void*>(&alpha_) : &narrow_alpha_;
    const void* const beta = wide_ ? static_cast<const void*>(&zero) : &narrow_beta;
    check(cublasLtMatmul(blas_, &operation_, alpha, b, &b_, a, &a_, beta, added, &y_, y, &y_,
                         &algorithm_, workspace, workspace_bytes_, stream),
          "cublasLtMatmul");
  }

  cublasLtHandle_t blas_;
  MatrixProblem problem_{};
  MatmulEpilogue epilogue_;
  DataType type_, result_type_;
  bool wide_ = false;
  std::int64_t bytes_ = 4;  // of an operand's element
  std::size_t result_bytes_ = 0, workspace_bytes_ = 0;
  double alpha_ = 1;
  float narrow_alpha_ = 1;
  // cuBLASLt takes its own opaque structs by non-const pointers.
  mutable cublasLtMatmulDescOpaque_t operation_{};
  mutable cublasLtMatrixLayoutOpaque_t a_{}, b_{}, y_{};
  cublasLtMatmulAlgo_t algorithm_{};
};

Support supports(const ir::Graph& graph, const ir::Node& node) {
  if (!matmul_epilogue(graph, node)) {
    return Support::no("a list that is no epilogue of a matrix product");
  }
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  for (const auto* operands : {&node.inputs, &node.outputs}) {
    for (ir::ValueId id : *operands) {
      const Shape& shape = graph.type(id).shape;
      for (std::int64_t extent : shape) {
        if (extent >= kMost) return Support::no("an extent of 2^31 or more");
      }
    }
  }
  return supports_floating_or_half(graph, node);
}

std::unique_ptr<Kernel> make(const ir::Graph& graph, const ir::Node& node, const Context& context) {
  if (is_cluster_split_k(graph, node, context)) return make_cluster_split_k(graph, node);
  return std::make_unique<Matmul>(graph, node, context);
}

}  // namespace

std::vector<KernelEntry> matmul_entries() {
  return {{ir::Op::matmul, supports, make, nullptr, fuses}};
}

}  // namespace traingraph::cuda
