// One kernel for the gradients of a dense layer with few outputs.
#include "backends/cuda/fused/skinny_gradients.h"

#include <algorithm>

#include "backends/cuda/device/dependent_launch.h"
#include "backends/cuda/kernel/check.h"
#include "backends/cuda/products/matmul.h"
#include "backends/cuda/products/skinny_gemm.h"

namespace traingraph::cuda {
namespace {

// A block has kColumns columns of x, W and dx. A thread has four of them in every kRowsApart-th
// row.
constexpr int kColumns = 16, kAcross = kColumns / 4, kRowsApart = kThreads / kAcross;
constexpr int kRowsOfThread = 4, kRowsAtOnce = kRowsOfThread * kRowsApart;

struct Plan {
  int rows, outputs, columns;
  float back_alpha, weights_alpha;
  bool masked;
  const float *dy, *w, *x;
  float *dx, *dw, *sum;  // sum may be null
};

// kOutputs is a multiple of four and at least plan.outputs.
template <int kOutputs>
__global__ void __launch_bounds__(kThreads) skinny_gradients(const __grid_constant__ Plan plan) {
  launch_dependents();
  wait_for_predecessors();
  constexpr int kWarps = kThreads / 32;
  __shared__ float slopes[kRowsAtOnce][kOutputs];
  __shared__ float parts[kWarps][kOutputs + 1][kColumns];
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int first_column = static_cast<int>(blockIdx.x) * kColumns;
  const int own = thread % kAcross * 4, column = first_column + own;
  const bool there = column < plan.columns;
  Pack<float> w[kOutputs] = {}, sum[kOutputs + 1] = {};  // of dW, and of dx
  if (there) {
#pragma unroll
    for (int c = 0; c < kOutputs; ++c) {
      if (c < plan.outputs) w[c] = load<4>(plan.w + std::int64_t{c} * plan.columns + column);
    }
  }
  for (int first = 0; first < plan.rows; first += kRowsAtOnce) {
    const auto offset = [&](int i) {
      return std::int64_t{first + thread / kAcross + i * kRowsApart} * plan.columns + column;
    };
    const auto is_row = [&](int i) {
      return there && first + thread / kAcross + i * kRowsApart < plan.rows;
    };
    Pack<float> x[kRowsOfThread] = {};
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) {
      if (is_row(i)) x[i] = load<4>(plan.x + offset(i));
    }
    for (int k = thread; k < kRowsAtOnce * kOutputs; k += kThreads) {
      const int row = first + k / kOutputs, c = k % kOutputs;
      const bool real = row < plan.rows && c < plan.outputs;
      slopes[k / kOutputs][c] = real ? plan.dy[std::int64_t{row} * plan.outputs + c] : 0;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kRowsOfThread; ++i) {
      if (!is_row(i)) continue;
      const float* const slope = slopes[thread / kAcross + i * kRowsApart];
      Pack<float> dx{};
#pragma unroll
      for (int c = 0; c < kOutputs; ++c) {
#pragma unroll
        for (int v = 0; v < 4; ++v) {
          dx.element[v] += slope[c] * w[c].element[v];
          sum[c].element[v] += slope[c] * x[i].element[v];
        }
      }
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        dx.element[v] *= plan.back_alpha;
        if (plan.masked && x[i].element[v] <= 0.0f) dx.element[v] = 0;
        sum[kOutputs].element[v] += dx.element[v];
      }
      store(plan.dx + offset(i), dx);
    }
    __syncthreads();
  }
#pragma unroll
  for (int c = 0; c <= kOutputs; ++c) {
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      const float total = sum_across<kAcross>(sum[c].element[v]);
      if (lane < kAcross) parts[warp][c][own + v] = total;
    }
  }
  __syncthreads();
  for (int k = thread; k < (kOutputs + 1) * kColumns; k += kThreads) {
    const int c = k / kColumns, at = first_column + k % kColumns;
    if (at >= plan.columns) continue;
    float total = 0;
#pragma unroll
    for (int part = 0; part < kWarps; ++part) total += parts[part][c][k % kColumns];
    if (c < plan.outputs) {
      plan.dw[std::int64_t{c} * plan.columns + at] = total * plan.weights_alpha;
    } else if (c == kOutputs && plan.sum != nullptr) {
      plan.sum[at] = total;
    }
  }
}

class SkinnyGradients final : public Kernel {
 public:
  SkinnyGradients(const ir::Graph& graph, const ir::Node& back, const ir::Node& weights,
                  const ir::Node* sum)
      : dy_(back.inputs[0]),
        w_(back.inputs[1]),
        x_(weights.inputs[1]),
        dx_(back.outputs[0]),
        dw_(weights.outputs[0]),
        sum_(sum != nullptr ? sum->outputs[0] : -1) {
    const MatrixProblem p = matrix_problem(graph, back);
    const auto& attributes = std::get<ir::MatmulAttributes>(back.attributes);
    plan_.rows = static_cast<int>(p.rows);
    plan_.outputs = static_cast<int>(p.inner);
    plan_.columns = static_cast<int>(p.columns);
    plan_.back_alpha = static_cast<float>(attributes.alpha);
    plan_.weights_alpha =
        static_cast<float>(std::get<ir::MatmulAttributes>(weights.attributes).alpha);
    plan_.masked = !attributes.epilogue.empty();
  }

  bool uses_dependent_launch() const override { return true; }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    const auto at = [&](ir::ValueId id) { return reinterpret_cast<float*>(pointers[id]); };
    Plan plan = plan_;
    plan.dy = at(dy_);
    plan.w = at(w_);
    plan.x = at(x_);
    plan.dx = at(dx_);
    plan.dw = at(dw_);
    plan.sum = sum_ < 0 ? nullptr : at(sum_);
    auto* const kernel = for_few(plan.outputs, [](auto few) { return skinny_gradients<few>; });
    kernel<<<blocks_for(plan.columns, kColumns), kThreads, 0, stream>>>(plan);
    check_launch("skinny gradients");
  }

 private:
  Plan plan_{};  // without the addresses
  ir::ValueId dy_, w_, x_, dx_, dw_, sum_;
};

constexpr std::int64_t kMostRows = 2048, kLeastColumns = 512;

bool is_single(const MatrixProblem& p) { return p.batch.extent == 1 && p.outer.empty(); }

bool is_product_back(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != ir::Op::matmul || !has_plain_floats(graph, node)) return false;
  const ir::ScalarList& list = std::get<ir::MatmulAttributes>(node.attributes).epilogue;
  const bool masked = ir::is_relu_gradient(list) && list.code[0].x == 0;
  const MatrixProblem p = matrix_problem(graph, node);
  return (list.empty() || masked) && is_single(p) && !is_tiny(p) && !p.transpose_a &&
         !p.transpose_b && p.inner <= kFewColumns && p.rows <= kMostRows &&
         p.columns >= kLeastColumns && p.columns % 4 == 0;
}

// dyᵀ x. If dx is masked, x must be the mask.
bool is_of_weights(const ir::Graph& graph, const ir::Node& node, const ir::Node& back) {
  if (node.op != ir::Op::matmul || !has_plain_floats(graph, node) ||
      node.inputs[0] != back.inputs[0] ||
      !std::get<ir::MatmulAttributes>(node.attributes).epilogue.empty() ||
      (back.inputs.size() > 2 && node.inputs[1] != back.inputs[2])) {
    return false;
  }
  const MatrixProblem p = matrix_problem(graph, node), q = matrix_problem(graph, back);
  return is_single(p) && p.transpose_a && !p.transpose_b && p.rows == q.inner &&
         p.columns == q.columns && p.inner == q.rows;
}

bool is_sum_of_rows(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != ir::Op::reduce || !has_plain_floats(graph, node)) return false;
  const auto& attributes = std::get<ir::ReduceAttributes>(node.attributes);
  return attributes.kind == ir::ReduceKind::sum && attributes.axes == std::vector<int>{0} &&
         graph.type(node.inputs[0]).shape.size() == 2;
}

}  // namespace

std::vector<FusedGroup> find_skinny_gradients(const ir::Graph& graph) {
  const auto readers = ir::consumers(graph);
  const auto reader = [&](ir::ValueId id, auto&& is) -> const ir::Node* {
    const auto& all = readers[static_cast<std::size_t>(id)];
    const auto found =
        std::find_if(all.begin(), all.end(), [&](ir::NodeId n) { return is(graph.node(n)); });
    return found == all.end() ? nullptr : &graph.node(*found);
  };
  const auto number = [&](const ir::Node& node) {
    return static_cast<ir::NodeId>(&node - graph.nodes.data());
  };
  std::vector<FusedGroup> result;
  for (const ir::Node& back : graph.nodes) {
    if (!is_product_back(graph, back)) continue;
    const ir::Node* const weights = reader(
        back.inputs[0], [&](const ir::Node& node) { return is_of_weights(graph, node, back); });
    if (weights == nullptr) continue;
    const ir::Node* const sum =
        reader(back.outputs[0], [&](const ir::Node& node) { return is_sum_of_rows(graph, node); });
    result.push_back({{number(back), number(*weights)},
                      std::make_unique<SkinnyGradients>(graph, back, *weights, sum)});
    if (sum != nullptr) result.back().nodes.push_back(number(*sum));
  }
  return result;
}

}  // namespace traingraph::cuda
