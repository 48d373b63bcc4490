// Launches of weight-gradient GEMMs that are fused with their optimizer updates.
#include "backends/cuda/fused/fused_update.h"

#include <algorithm>

#include "backends/cuda/fused/fused_update_kernel.h"
#include "backends/cuda/kernel/check.h"
#include "backends/cuda/products/matmul.h"

namespace traingraph::cuda {
namespace {

using namespace fused_update;

template <class List>
struct Part final : UpdatePart {
  Part(const ir::Graph& graph, const ir::Node& product, const ir::Node& update,
       const std::vector<int>& input_of, int blocks)
      : a(product.inputs[0]), b(product.inputs[1]), outputs(update.outputs), most_blocks(blocks) {
    for (int i : input_of) inputs.push_back(update.inputs[static_cast<std::size_t>(i)]);
    const MatrixProblem p = matrix_problem(graph, product);
    plan.rows = static_cast<int>(p.rows);
    plan.columns = static_cast<int>(p.columns);
    plan.inner = static_cast<int>(p.inner);
    plan.across = static_cast<int>(blocks_for(p.columns, kColumns));
    plan.tiles = plan.across * static_cast<int>(blocks_for(p.rows, kRows));
    plan.alpha = static_cast<float>(std::get<ir::MatmulAttributes>(product.attributes).alpha);
    plan.list = immediates<List>(std::get<ir::ElementwiseAttributes>(update.attributes).list);
  }

  Plan<List> plan{};  // without the addresses of these
  ir::ValueId a, b;
  std::vector<ir::ValueId> inputs, outputs;
  int most_blocks;
};

template <class List>
class FusedUpdate final : public Kernel {
 public:
  explicit FusedUpdate(const std::vector<const UpdatePart*>& parts) {
    for (const UpdatePart* part : parts) parts_.push_back(static_cast<const Part<List>*>(part));
    for (const Part<List>* part : parts_) tiles_ += part->plan.tiles;
    // The fewest blocks that need no more rounds than one block per multiprocessor would. The other
    // multiprocessors remain free for other kernels.
    blocks_ = blocks_for(tiles_, static_cast<int>(blocks_for(tiles_, parts_[0]->most_blocks)));
    check(cudaFuncSetAttribute(multiply_and_update<List>,
                               cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
          "cudaFuncSetAttribute");
  }

  bool uses_dependent_launch() const override { return true; }
  bool uses_wgmma() const override { return true; }

  void launch(Pointers pointers, cudaStream_t stream) const override {
    Plans<List> plans{static_cast<int>(parts_.size()), tiles_, {}};
    Operands operands{};
    for (std::size_t p = 0; p < parts_.size(); ++p) {
      const Part<List>& part = *parts_[p];
      Plan<List>& plan = plans.plan[p] = part.plan;
      const auto at = [&](ir::ValueId id) { return reinterpret_cast<float*>(pointers[id]); };
      std::transform(part.inputs.begin(), part.inputs.end(), plan.inputs, at);
      std::transform(part.outputs.begin(), part.outputs.end(), plan.outputs, at);
      operands.a[p] = tensor_map(at(part.a), plan.inner, plan.rows, kTileFloats);
      operands.b[p] = tensor_map(at(part.b), plan.inner, plan.columns, kTileFloats);
    }
    multiply_and_update<List><<<blocks_, kBlock, kSharedBytes, stream>>>(plans, operands);
    check_launch("matmul and optimizer updates");
  }

 private:
  std::vector<const Part<List>*> parts_;
  int tiles_ = 0;
  unsigned blocks_;
};

// Updates of smaller weights run from the caches. With longer sums the GEMM dominates, and cuBLASLt
// is faster.
constexpr std::int64_t kLeastWeights = std::int64_t{1} << 20, kLeastInner = 64, kMostInner = 512;

bool may_fuse(const ir::Graph& graph, const ir::Node& node) {
  const auto& attributes = std::get<ir::MatmulAttributes>(node.attributes);
  if (!has_plain_floats(graph, node)) return false;
  const MatrixProblem p = matrix_problem(graph, node);
  return attributes.tf32 && attributes.epilogue.empty() && p.transpose_a && !p.transpose_b &&
         p.batch.extent == 1 && p.outer.empty() && p.rows % 4 == 0 && p.columns % 4 == 0 &&
         p.inner >= kLeastInner && p.inner <= kMostInner && p.rows * p.columns >= kLeastWeights;
}

// Whether every operand has the expected form, and the gradient is read once.
template <class List>
bool is_updated(const ir::Graph& graph, const ir::Node& node, ir::ValueId gradient,
                const std::vector<int>& input_of) {
  const std::int64_t weights = graph.type(gradient).elements();
  for (std::size_t i = 0; i < input_of.size(); ++i) {
    const ir::ValueId id = node.inputs[static_cast<std::size_t>(input_of[i])];
    const bool dense = List::kinds[i] == 'v';
    if (!is_plain_float(graph, id) || graph.type(id).elements() != (dense ? weights : 1) ||
        (id == gradient) != (i == kGradient)) {
      return false;
    }
  }
  return std::all_of(node.outputs.begin(), node.outputs.end(), [&](ir::ValueId id) {
    return is_plain_float(graph, id) && graph.type(id).elements() == weights;
  });
}

}  // namespace

std::unique_ptr<UpdatePart> make_update_part(const ir::Graph& graph, const ir::Node& product,
                                             const ir::Node& update, const Context& context) {
  std::unique_ptr<UpdatePart> result;
  if (!context.wgmma || update.op != ir::Op::elementwise || !may_fuse(graph, product)) {
    return result;
  }
  any_precompiled_list([&](auto list) {
    using List = decltype(list);
    if constexpr (kIsUpdate<List>) {
      const auto& given = std::get<ir::ElementwiseAttributes>(update.attributes).list;
      const std::vector<int> input_of = input_mapping<List>(given);
      if (input_of.empty() || !is_updated<List>(graph, update, product.outputs[0], input_of)) {
        return false;
      }
      result =
          std::make_unique<Part<List>>(graph, product, update, input_of, context.multiprocessors);
    }
    return result != nullptr;
  });
  return result;
}

std::unique_ptr<Kernel> make_fused_update(const std::vector<const UpdatePart*>& parts) {
  std::unique_ptr<Kernel> result;
  any_precompiled_list([&](auto list) {
    using List = decltype(list);
    if constexpr (kIsUpdate<List>) {
      if (dynamic_cast<const Part<List>*>(parts[0]) != nullptr) {
        result = std::make_unique<FusedUpdate<List>>(parts);
      }
    }
    return result != nullptr;
  });
  return result;
}

}  // namespace traingraph::cuda
