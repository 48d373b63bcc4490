// The table of kernels, in order of preference: a library's kernel or a hand-written one, whichever
// is faster, comes before the general kernel of the same op.
#include <algorithm>

#include "backends/cuda/kernel/node_kernel.h"

namespace traingraph::cuda {

DataType compute_type(const ir::Graph& graph, const ir::Node& node) {
  DataType found = DataType::kInvalid;
  for (const auto* operands : {&node.inputs, &node.outputs}) {
    for (ir::ValueId id : *operands) {
      const DataType type = graph.type(id).data_type;
      if (!is_floating_point(type)) continue;
      if (found != DataType::kInvalid && found != type) return DataType::kInvalid;
      found = type;
    }
  }
  return found;
}

Support supports_floating(const ir::Graph& graph, const ir::Node& node) {
  DataType type = compute_type(graph, node);
  if (type == DataType::kInvalid) {
    const auto is_floating = [&](ir::ValueId id) {
      return is_floating_point(graph.type(id).data_type);
    };
    if (std::ranges::any_of(node.inputs, is_floating) ||
        std::ranges::any_of(node.outputs, is_floating)) {
      return Support::no("operands of different data types");
    }
    type = graph.type(node.outputs[0]).data_type;
  }
  if (type != DataType::kFloat32 && type != DataType::kFloat64) {
    return Support::no(std::string("data type ") + name(type) + " (cuda has float32 and float64)");
  }
  for (ir::ValueId id : node.inputs) {
    if (graph.type(id).rank() > 8) return Support::no("more than 8 axes");
  }
  return {};
}

Support supports_floating_or_half(const ir::Graph& graph, const ir::Node& node) {
  const ir::ValueId first = node.inputs.empty() ? node.outputs[0] : node.inputs[0];
  if (!ir::is_half(graph.type(first).data_type)) return supports_floating(graph, node);
  if (graph.type(first).rank() > 8) return Support::no("more than 8 axes");
  return {};
}

Support supports_any_type(const ir::Graph& graph, const ir::Node& node, ir::ValueId id) {
  for (ir::ValueId input : node.inputs) {
    if (graph.type(input).rank() > 8) return Support::no("more than 8 axes");
  }
  const DataType type = graph.type(id).data_type;
  if (!ir::is_half(type)) return {};
  return Support::no(std::string("data type ") + name(type));
}

bool is_plain_float(const ir::Graph& graph, ir::ValueId id) {
  return graph.type(id).data_type == DataType::kFloat32 && graph.value(id).layout.plain();
}

bool has_plain_floats(const ir::Graph& graph, const ir::Node& node) {
  const auto is = [&](ir::ValueId id) { return is_plain_float(graph, id); };
  return std::all_of(node.inputs.begin(), node.inputs.end(), is) &&
         std::all_of(node.outputs.begin(), node.outputs.end(), is);
}

ir::ValueId root_of(const ir::Graph& graph, ir::ValueId id) {
  for (;;) {
    const ir::NodeId producer = graph.value(id).producer;
    if (producer == ir::kNone || graph.node(producer).op != ir::Op::reshape) return id;
    id = graph.node(producer).inputs[0];
  }
}

namespace {

// A reshape is a view: the planner assigns it its source's bytes, and this kernel never runs.
class Reshape final : public Kernel {
 public:
  void launch(Pointers, cudaStream_t) const override {}
};

Support supports_reshape(const ir::Graph& graph, const ir::Node& node) {
  return supports_any_type(graph, node, node.inputs[0]);
}
std::unique_ptr<Kernel> make_reshape(const ir::Graph&, const ir::Node&, const Context&) {
  return std::make_unique<Reshape>();
}

}  // namespace

const std::vector<KernelEntry>& table() {
  static const std::vector<KernelEntry> entries = [] {
    std::vector<KernelEntry> all;
    for (auto family : {reorder_entries,
                        precompiled_list_entries,
                        elementwise_entries,
                        cast_entries,
                        reduce_entries,
                        small_matmul_entries,
                        matmul_entries,
                        weight_gradient_gemm_entries,
                        small_convolution_entries,
                        cudnn_entries,
                        convolution_entries,
                        batch_norm_entries,
                        batch_norm_residual_pair_entries,
                        layer_norm_entries,
                        row_norm_entries,
                        max_pooling_gradient_entries,
                        pooling_entries,
                        softmax_entries,
                        cross_entropy_entries,
                        data_movement_entries,
                        indexing_entries,
                        check_indices_entries,
                        embedding_entries,
                        compare_entries,
                        extremum_entries,
                        constant_entries,
                        dropout_entries,
                        lstm_entries,
                        attention_entries,
                        all_reduce_entries}) {
      for (const KernelEntry& entry : family()) all.push_back(entry);
    }
    all.push_back({ir::Op::reshape, supports_reshape, make_reshape, nullptr, nullptr});
    return all;
  }();
  return entries;
}

}  // namespace traingraph::cuda
