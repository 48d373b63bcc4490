// The base class of kernels of one node, type checks of its operands, and the functions that list
// all kernels.
#pragma once

#include <cstdint>

#include "backends/cuda/kernel/context.h"
#include "backends/cuda/kernel/kernel.h"

namespace traingraph::cuda {

// Knows which addresses are the node's operands and its workspace.
class NodeKernel : public Kernel {
 public:
  NodeKernel(const ir::Graph& graph, const ir::Node& node)
      : inputs_(node.inputs),
        outputs_(node.outputs),
        workspace_(graph.values.size() + static_cast<std::size_t>(&node - graph.nodes.data())) {}

 protected:
  template <class T>
  const T* in(Pointers pointers, std::size_t i) const {
    return reinterpret_cast<const T*>(pointers[inputs_[i]]);
  }
  template <class T>
  T* out(Pointers pointers, std::size_t i) const {
    return reinterpret_cast<T*>(pointers[outputs_[i]]);
  }
  template <class T>
  T* workspace(Pointers pointers) const {
    return reinterpret_cast<T*>(pointers[workspace_]);
  }

  std::vector<ir::ValueId> inputs_, outputs_;
  std::size_t workspace_;
};

// The floating-point type that a node computes in; kInvalid if its operands disagree or have none.
DataType compute_type(const ir::Graph& graph, const ir::Node& node);

// Requires operands of one type, float32 or float64, with at most eight axes.
Support supports_floating(const ir::Graph& graph, const ir::Node& node);

// The same, or 16-bit operands with float32 values per channel.
Support supports_floating_or_half(const ir::Graph& graph, const ir::Node& node);

bool is_plain_float(const ir::Graph& graph, ir::ValueId id);
// Whether all inputs and outputs are plain float32.
bool has_plain_floats(const ir::Graph& graph, const ir::Node& node);

// The value whose bytes a view shares.
ir::ValueId root_of(const ir::Graph& graph, ir::ValueId id);

// Makes K<float> or K<double>, by the type of the operands.
template <template <class> class K>
std::unique_ptr<Kernel> make_floating(const ir::Graph& graph, const ir::Node& node,
                                      const Context& context) {
  if (compute_type(graph, node) == DataType::kFloat64) {
    return std::make_unique<K<double>>(graph, node, context);
  }
  return std::make_unique<K<float>>(graph, node, context);
}

// Requires that `id`, whose elements are moved, compared or selected, has a type other than 16
// bits. All inputs have at most eight axes.
Support supports_any_type(const ir::Graph& graph, const ir::Node& node, ir::ValueId id);

// Makes K<T> for the element type of `id`.
template <template <class> class K>
std::unique_ptr<Kernel> make_of_type(const ir::Graph& graph, const ir::Node& node,
                                     const Context& context, ir::ValueId id) {
  switch (graph.type(id).data_type) {
    case DataType::kFloat32:
      return std::make_unique<K<float>>(graph, node, context);
    case DataType::kFloat64:
      return std::make_unique<K<double>>(graph, node, context);
    case DataType::kInt8:
      return std::make_unique<K<std::int8_t>>(graph, node, context);
    case DataType::kUInt8:
      return std::make_unique<K<std::uint8_t>>(graph, node, context);
    case DataType::kInt32:
      return std::make_unique<K<std::int32_t>>(graph, node, context);
    case DataType::kInt64:
      return std::make_unique<K<std::int64_t>>(graph, node, context);
    default:
      return std::make_unique<K<bool>>(graph, node, context);
  }
}

// The rows of the table, one function per family.
std::vector<KernelEntry> precompiled_list_entries();
std::vector<KernelEntry> elementwise_entries();
std::vector<KernelEntry> cast_entries();
std::vector<KernelEntry> reduce_entries();
std::vector<KernelEntry> small_matmul_entries();
std::vector<KernelEntry> matmul_entries();
std::vector<KernelEntry> weight_gradient_gemm_entries();
std::vector<KernelEntry> small_convolution_entries();
std::vector<KernelEntry> cudnn_entries();
std::vector<KernelEntry> convolution_entries();
std::vector<KernelEntry> batch_norm_entries();
std::vector<KernelEntry> batch_norm_residual_pair_entries();
bool batch_norm_has_relu_mask(const ir::Graph& graph, const ir::Node& node);
std::vector<KernelEntry> layer_norm_entries();
std::vector<KernelEntry> row_norm_entries();
std::vector<KernelEntry> max_pooling_gradient_entries();
std::vector<KernelEntry> pooling_entries();
std::vector<KernelEntry> softmax_entries();
std::vector<KernelEntry> cross_entropy_entries();
std::vector<KernelEntry> data_movement_entries();
std::vector<KernelEntry> indexing_entries();
std::vector<KernelEntry> check_indices_entries();
std::vector<KernelEntry> embedding_entries();
std::vector<KernelEntry> compare_entries();
std::vector<KernelEntry> extremum_entries();
std::vector<KernelEntry> constant_entries();
std::vector<KernelEntry> dropout_entries();
std::vector<KernelEntry> lstm_entries();
std::vector<KernelEntry> attention_entries();
std::vector<KernelEntry> reorder_entries();
std::vector<KernelEntry> all_reduce_entries();

}  // namespace traingraph::cuda
