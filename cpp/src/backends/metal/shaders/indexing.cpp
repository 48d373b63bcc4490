// Gather and scatter, and which elements their indices pick.
#include "backends/metal/shaders/shader_kernel.h"

namespace traingraph::metal {
namespace {

// What the indices at input 1 pick: `picked` is the shape of the values.
shader::Picked picked_of(const ir::Graph& graph, const ir::Node& node, const Shape& tensor,
                         const Shape& picked, int axis, bool adds) {
  const ir::Type& indices = graph.type(node.inputs[1]);
  shader::Picked a{};
  a.axis = axis;
  a.slices = indices.rank() == 1 && tensor.size() != 1 ? 1 : 0;
  a.index_bytes = narrow(element_bytes(indices.data_type));
  a.adds = adds ? 1 : 0;
  a.tensor = extents_of(tensor);
  a.picked = extents_of(picked);
  return a;
}

std::unique_ptr<Kernel> make_gather(const ir::Graph& graph, const ir::Node& node, Device& device) {
  const Shape& y = graph.type(node.outputs[0]).shape;
  const auto a = picked_of(graph, node, graph.type(node.inputs[0]).shape, y,
                           std::get<ir::AxisAttributes>(node.attributes).axis, false);
  return dispatch(device, "gather", {node.inputs[0], node.inputs[1], node.outputs[0]}, a,
                  element_count(y));
}

std::unique_ptr<Kernel> make_scatter(const ir::Graph& graph, const ir::Node& node, Device& device) {
  const auto& attributes = std::get<ir::ScatterAttributes>(node.attributes);
  const Shape& y = graph.type(node.outputs[0]).shape;
  const auto a =
      picked_of(graph, node, y, graph.type(node.inputs[0]).shape, attributes.axis, attributes.adds);
  const bool onto_zeros = node.inputs.size() == 2;
  // Without a tensor the values stand in for it, unread.
  auto with = a;
  with.onto_zeros = onto_zeros ? 1 : 0;
  return dispatch(
      device, "scatter",
      {node.inputs[0], node.inputs[1], node.inputs[onto_zeros ? 0 : 2], node.outputs[0]}, with,
      element_count(y));
}

std::unique_ptr<Kernel> make_scatter_gradient(const ir::Graph& graph, const ir::Node& node,
                                              Device& device) {
  const Shape& dy = graph.type(node.inputs[0]).shape;
  const Shape& values = graph.type(node.outputs[0]).shape;
  const auto a =
      picked_of(graph, node, dy, values, std::get<ir::AxisAttributes>(node.attributes).axis, false);
  const auto& in = node.inputs;
  const auto& out = node.outputs;  // dvalues, dtensor, writers
  auto both = std::make_unique<Sequence>();
  both->add(
      dispatch(device, "scatter_writers", {in[0], in[1], out[1], out[2]}, a, element_count(dy)));
  both->add(
      dispatch(device, "scatter_values", {in[0], in[1], out[2], out[0]}, a, element_count(values)));
  return both;
}

}  // namespace

std::vector<KernelEntry> indexing_entries() {
  return {{ir::Op::gather, supports_float, make_gather},
          {ir::Op::scatter, supports_float, make_scatter},
          {ir::Op::scatter_gradient, supports_float, make_scatter_gradient}};
}

}  // namespace traingraph::metal
