// One kernel for a classifier's last product, its softmax cross entropy and the gradient of the
// loss.
#include "backends/cuda/fused/skinny_loss.h"

#include <algorithm>
#include <optional>

#include "backends/cuda/device/dependent_launch.h"
#include "backends/cuda/kernel/check.h"
#include "backends/cuda/products/skinny_gemm.h"
#include "backends/cuda/tasks/cross_entropy_tasks.h"

namespace traingraph::cuda {
namespace {

struct Plan {
  TilePlan product;
  const float *a, *b, *bias;
  float* logits;
  LossTasks<float, 32> loss;
  LossGradientTasks<float, 32> gradient;
  float* slopes;  // null if the gradient of the loss is an input
  float slope;
};

template <int kColumns>
__global__ void __launch_bounds__(kThreads) multiply_and_loss(const __grid_constant__ Plan plan) {
  launch_dependents();
  wait_for_predecessors();
  // The row's warp reads these again; shared memory is closer than global memory.
  __shared__ float logits[kFewRows * kColumns], log_sums[kFewRows], slopes[kFewRows];
  compute_few_columns<kColumns>(plan.product, plan.a, plan.b, plan.bias, plan.logits, logits);
  __syncthreads();  // one warp per row of the block from here on
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t number = std::int64_t{blockIdx.x} * kFewRows + warp;
  if (warp >= kFewRows || number >= plan.product.rows) return;
  const Row row{true, lane, number, number * plan.product.columns};
  const std::int64_t first = std::int64_t{blockIdx.x} * kFewRows;  // of the rows
  LossTasks<float, 32> loss = plan.loss;
  LossGradientTasks<float, 32> gradient = plan.gradient;
  loss.x = gradient.x = logits - first * plan.product.columns;
  loss.logarithm = log_sums - first;
  loss.run(row);
  if (lane == 0) {
    plan.loss.logarithm[number] = log_sums[warp];
    slopes[warp] = plan.slopes != nullptr ? plan.slope : plan.gradient.dloss[number];
    if (plan.slopes != nullptr) plan.slopes[number] = plan.slope;
  }
  gradient.logarithm = log_sums - first;
  gradient.dloss = slopes - first;
  __syncwarp();  // the log-sum and the slope are visible
  gradient.run(row);
}

class SkinnyLoss final : public Kernel {
 public:
  // `slope`: the constant value of the gradient of the loss, which this kernel writes.
  SkinnyLoss(const ir::Graph& graph, const ir::Node& product, const ir::Node& loss,
             const ir::Node& gradient, std::optional<double> slope)
      : product_(product.inputs),
        loss_(loss.outputs),
        logits_(product.outputs[0]),
        labels_address_(loss.inputs[1]),
        slopes_(gradient.inputs[0]),
        result_(gradient.outputs[0]),
        plan_(tile_plan(graph, product)),
        rows_(graph.type(logits_).shape, 1),
        labels_(labels_of(graph, loss, 1)),
        slope_(slope) {}

  bool uses_dependent_launch() const override { return true; }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    const auto at = [&](ir::ValueId id) { return reinterpret_cast<float*>(pointers[id]); };
    Labels labels = labels_;
    labels.data = pointers[labels_address_];
    float* const x = at(logits_);
    const float* const bias = product_.size() > 2 ? at(product_[2]) : nullptr;
    const Plan plan{plan_,
                    at(product_[0]),
                    at(product_[1]),
                    bias,
                    x,
                    {rows_, labels, x, at(loss_[0]), at(loss_[1])},
                    {rows_, labels, at(slopes_), x, at(loss_[1]), at(result_)},
                    slope_ ? at(slopes_) : nullptr,
                    static_cast<float>(slope_.value_or(0))};
    auto* const kernel = for_few(plan_.columns, [](auto few) { return multiply_and_loss<few>; });
    kernel<<<blocks_for(plan_.rows, kFewRows), kThreads, 0, stream>>>(plan);
    check_launch("matmul, softmax_cross_entropy and its gradient");
  }

 private:
  std::vector<ir::ValueId> product_, loss_;
  ir::ValueId logits_, labels_address_, slopes_, result_;
  TilePlan plan_;
  Rows rows_;
  Labels labels_;
  std::optional<double> slope_;
};

// Whether multiply_few_columns takes the product and a megakernel does not.
bool is_skinny(const ir::Graph& graph, const ir::Node& node) {
  if (node.op != ir::Op::matmul || !has_plain_floats(graph, node)) return false;
  const auto& attributes = std::get<ir::MatmulAttributes>(node.attributes);
  const MatrixProblem p = matrix_problem(graph, node);
  constexpr std::int64_t kMostRows = std::int64_t{1} << 20;
  return ir::add_relu_epilogue_of(attributes.epilogue) && p.batch.extent == 1 && p.outer.empty() &&
         p.rows <= kMostRows && p.inner <= kMostRows && !is_tiny(p) &&
         has_few_columns(tile_plan(graph, node)) && graph.type(node.outputs[0]).shape.size() == 2 &&
         Rows(graph.type(node.outputs[0]).shape, 1).lanes() == 32;  // as in a separate launch
}

// The value of all elements if this node is a constant without inputs.
std::optional<double> constant_of(const ir::Graph& graph, ir::NodeId id) {
  if (id == ir::kNone || graph.node(id).op != ir::Op::elementwise) return std::nullopt;
  const ir::Node& node = graph.node(id);
  const ir::ScalarList& list = std::get<ir::ElementwiseAttributes>(node.attributes).list;
  const bool constant = node.inputs.empty() && node.outputs.size() == 1 && list.code.size() == 1 &&
                        list.code[0].function == ir::Scalar::constant;
  return constant ? std::optional(list.code[0].p) : std::nullopt;
}

}  // namespace

std::vector<FusedGroup> find_skinny_losses(const ir::Graph& graph) {
  std::vector<FusedGroup> result;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const ir::Node& gradient = graph.nodes[n];
    if (gradient.op != ir::Op::softmax_cross_entropy_gradient) continue;
    const ir::NodeId loss = graph.value(gradient.inputs[3]).producer;
    const ir::NodeId product = graph.value(gradient.inputs[1]).producer;
    if (loss == ir::kNone || product == ir::kNone) continue;
    const ir::Node& compared = graph.node(loss);
    if (compared.op != ir::Op::softmax_cross_entropy || compared.inputs[0] != gradient.inputs[1] ||
        compared.inputs[1] != gradient.inputs[2] || !is_skinny(graph, graph.node(product)) ||
        !is_plain_float(graph, gradient.inputs[0])) {
      continue;
    }
    const ir::NodeId slopes = graph.value(root_of(graph, gradient.inputs[0])).producer;
    const std::optional<double> slope = constant_of(graph, slopes);
    result.push_back(
        {{loss, product, static_cast<ir::NodeId>(n)},
         std::make_unique<SkinnyLoss>(graph, graph.node(product), compared, gradient, slope)});
    if (slope) result.back().nodes.push_back(slopes);
  }
  return result;
}

}  // namespace traingraph::cuda
