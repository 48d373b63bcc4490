// The table of kernels, and what its families share.
#include <limits>

#include "backends/metal/kernels/entries.h"
#include "backends/metal/shaders/shader_kernel.h"
#include "ir/epilogue.h"

namespace traingraph::metal {

Support supports_float(const ir::Graph& graph, const ir::Node& node) {
  if (ir::has_fused_work(node)) return Support::no("an epilogue, a prologue or coefficients");
  return supports_float_operands(graph, node);
}

Support supports_float_operands(const ir::Graph& graph, const ir::Node& node) {
  bool computes = false;
  for (const auto* operands : {&node.inputs, &node.outputs}) {
    for (ir::ValueId id : *operands) {
      const ir::Type& type = graph.type(id);
      computes = computes || is_floating_point(type.data_type);
      if (is_floating_point(type.data_type) && type.data_type != DataType::kFloat32) {
        return Support::no(std::string("data type ") + name(type.data_type) +
                           " (metal computes in float32)");
      }
      if (type.rank() > shader::kAxes) return Support::no("more than 8 axes");
      if (type.elements() > std::numeric_limits<int>::max()) {
        return Support::no("a tensor of 2^31 elements or more");
      }
    }
  }
  if (!computes) {
    return Support::no(std::string("data type ") + name(graph.type(node.outputs[0]).data_type) +
                       " (metal computes in float32)");
  }
  return {};
}

shader::Extents extents_of(const Shape& shape) {
  shader::Extents extents{};
  extents.rank = static_cast<int>(shape.size());
  for (std::size_t k = 0; k < shape.size(); ++k) extents.extent[k] = narrow(shape[k]);
  return extents;
}

shader::Strides broadcast_strides(const Shape& source, const Shape& shape) {
  shader::Strides strides{};
  std::int64_t step = 1;
  for (std::size_t k = source.size(); k-- > 0;) {
    if (source[k] != 1) strides.step[k + shape.size() - source.size()] = narrow(step);
    step *= source[k];
  }
  return strides;
}

shader::Window window_of(const ir::Window& window) {
  shader::Window result{};
  for (int axis = 0; axis < 2; ++axis) {
    result.size[axis] = narrow(window.kernel[axis]);
    result.stride[axis] = narrow(window.stride[axis]);
    result.dilation[axis] = narrow(window.dilation[axis]);
    result.padding[axis] = narrow(window.padding_before[axis]);
  }
  return result;
}

namespace {

// A reshape is a view: the planner gives it its source's bytes, and this never runs.
class Reshape final : public Kernel {
 public:
  void encode(Pointers, Encoding&) override {}
};

Support supports_any(const ir::Graph&, const ir::Node&) { return {}; }

std::unique_ptr<Kernel> make_reshape(const ir::Graph&, const ir::Node&, Device&) {
  return std::make_unique<Reshape>();
}

}  // namespace

const std::vector<KernelEntry>& table() {
  static const std::vector<KernelEntry> entries = [] {
    std::vector<KernelEntry> all;
    for (auto family : {mps_matmul_entries,      mps_neuron_entries,
                        mps_convolution_entries, mps_normalization_entries,
                        mps_pooling_entries,     mps_move_entries,
                        named_kernel_entries,    elementwise_entries,
                        reduce_entries,          matmul_entries,
                        convolution_entries,     batch_norm_entries,
                        pooling_entries,         softmax_entries,
                        cross_entropy_entries,   data_movement_entries,
                        indexing_entries,        dropout_entries,
                        reorder_entries,         widened_entries}) {
      for (const KernelEntry& entry : family()) all.push_back(entry);
    }
    all.push_back({ir::Op::reshape, supports_any, make_reshape});
    return all;
  }();
  return entries;
}

}  // namespace traingraph::metal
