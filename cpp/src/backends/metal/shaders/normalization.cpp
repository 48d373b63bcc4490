// Batch normalization, softmax, cross entropy and pooling by hand-written shaders.
#include "backends/metal/shaders/shader_kernel.h"

namespace traingraph::metal {
namespace {

shader::Channels channels_of(const Shape& x, double epsilon) {
  return {narrow(x[0]), narrow(x[1]), narrow(element_count(x) / (x[0] * x[1])),
          static_cast<float>(epsilon)};
}

std::unique_ptr<Kernel> make_batch_norm(const ir::Graph& graph, const ir::Node& node,
                                        Device& device) {
  const Shape& x = graph.type(node.inputs[0]).shape;
  const auto e = channels_of(x, std::get<ir::BatchNormAttributes>(node.attributes).epsilon);
  const auto& in = node.inputs;
  const auto& out = node.outputs;  // y, mean, inverse deviation, variance
  auto both = std::make_unique<Sequence>();
  both->add(dispatch(device, "batch_norm_statistics", {in[0], out[1], out[2], out[3]}, e, e.c));
  both->add(dispatch(device, "batch_norm", {in[0], out[1], out[2], in[1], in[2], out[0]}, e,
                     element_count(x)));
  return both;
}

std::unique_ptr<Kernel> make_batch_norm_gradient(const ir::Graph& graph, const ir::Node& node,
                                                 Device& device) {
  const Shape& x = graph.type(node.inputs[1]).shape;
  const auto e = channels_of(x, std::get<ir::BatchNormAttributes>(node.attributes).epsilon);
  const auto& in = node.inputs;    // dy, x, mean, inverse deviation, gamma
  const auto& out = node.outputs;  // dx, dgamma, dbeta
  if (e.n * e.s == 2) {
    return dispatch(device, "batch_norm_gradient_of_two",
                    {in[0], in[1], in[2], in[3], in[4], out[0], out[1], out[2]}, e, e.c);
  }
  auto both = std::make_unique<Sequence>();
  both->add(
      dispatch(device, "batch_norm_sums", {in[0], in[1], in[2], in[3], out[1], out[2]}, e, e.c));
  both->add(dispatch(device, "batch_norm_gradient",
                     {in[0], in[1], in[2], in[3], in[4], out[1], out[2], out[0]}, e,
                     element_count(x)));
  return both;
}

std::unique_ptr<Kernel> make_softmax(const ir::Graph& graph, const ir::Node& node, Device& device) {
  const auto& attributes = std::get<ir::SoftmaxAttributes>(node.attributes);
  const Shape& shape = graph.type(node.outputs[0]).shape;
  const auto axis = static_cast<std::size_t>(attributes.axis);
  shader::Rows rows{narrow(shape[axis]), 1, attributes.logarithm ? 1 : 0};
  for (std::size_t k = axis + 1; k < shape.size(); ++k) rows.inner *= narrow(shape[k]);
  std::vector<ir::ValueId> operands = node.inputs;
  operands.push_back(node.outputs[0]);
  return dispatch(device, ir::name(node.op), std::move(operands), rows,
                  element_count(shape) / shape[axis]);
}

template <std::size_t logits>
std::unique_ptr<Kernel> make_cross_entropy(const ir::Graph& graph, const ir::Node& node,
                                           Device& device) {
  const auto& attributes = std::get<ir::CrossEntropyAttributes>(node.attributes);
  const Shape& shape = graph.type(node.inputs[logits]).shape;
  const DataType labels = graph.type(node.inputs[logits + 1]).data_type;
  const std::int64_t classes = attributes.classes > 0 ? attributes.classes : shape[1];
  shader::CrossEntropy a{};
  a.classes = narrow(shape[1]);
  a.inner = narrow(element_count(shape) / (shape[0] * shape[1]));
  a.label_bytes = is_floating_point(labels) ? 0 : narrow(element_bytes(labels));
  a.scale = static_cast<float>(1 - attributes.smoothing);
  a.share = static_cast<float>(attributes.smoothing / static_cast<double>(classes));
  std::vector<ir::ValueId> operands = node.inputs;
  operands.insert(operands.end(), node.outputs.begin(), node.outputs.end());
  return dispatch(device, ir::name(node.op), std::move(operands), a, shape[0] * a.inner);
}

shader::Pooling pooling_of(const ir::PoolingAttributes& attributes, const Shape& x,
                           const Shape& y) {
  shader::Pooling a{};
  a.kind = static_cast<int>(attributes.kind);
  a.h = narrow(x[2]);
  a.w = narrow(x[3]);
  a.p = narrow(y[2]);
  a.q = narrow(y[3]);
  a.counts_padding = attributes.count_includes_padding ? 1 : 0;
  a.window = window_of(attributes.window);
  return a;
}

std::unique_ptr<Kernel> make_pooling(const ir::Graph& graph, const ir::Node& node, Device& device) {
  const auto& attributes = std::get<ir::PoolingAttributes>(node.attributes);
  const Shape& y = graph.type(node.outputs[0]).shape;
  auto a = pooling_of(attributes, graph.type(node.inputs[0]).shape, y);
  // Without an index its place takes y once more, and is not written.
  ir::ValueId index = node.outputs[0];
  if (attributes.with_index) {
    index = node.outputs[1];
    a.index_bytes = narrow(element_bytes(graph.type(index).data_type));
  }
  return dispatch(device, "pooling", {node.inputs[0], node.outputs[0], index}, a, element_count(y));
}

std::unique_ptr<Kernel> make_pooling_gradient(const ir::Graph& graph, const ir::Node& node,
                                              Device& device) {
  const auto& attributes = std::get<ir::PoolingAttributes>(node.attributes);
  const auto& in = node.inputs;
  const Shape& x = graph.type(node.outputs[0]).shape;
  auto a = pooling_of(attributes, x, graph.type(in[0]).shape);
  ir::ValueId index = in[0], source = in[0], result = in[0];
  if (attributes.kind == ir::PoolingKind::max) {
    index = in[1];
    a.index_bytes = narrow(element_bytes(graph.type(index).data_type));
  } else if (attributes.kind == ir::PoolingKind::l2_norm) {
    source = in[1];
    result = in[2];
  }
  return dispatch(device, "pooling_gradient", {in[0], index, source, result, node.outputs[0]}, a,
                  element_count(x));
}

}  // namespace

std::vector<KernelEntry> batch_norm_entries() {
  return {{ir::Op::batch_norm, supports_float, make_batch_norm},
          {ir::Op::batch_norm_gradient, supports_float, make_batch_norm_gradient}};
}

std::vector<KernelEntry> softmax_entries() {
  return {{ir::Op::softmax, supports_float, make_softmax},
          {ir::Op::softmax_gradient, supports_float, make_softmax}};
}

std::vector<KernelEntry> cross_entropy_entries() {
  return {{ir::Op::softmax_cross_entropy, supports_float, make_cross_entropy<0>},
          {ir::Op::softmax_cross_entropy_gradient, supports_float, make_cross_entropy<1>}};
}

std::vector<KernelEntry> pooling_entries() {
  return {{ir::Op::pooling, supports_float, make_pooling},
          {ir::Op::pooling_gradient, supports_float, make_pooling_gradient}};
}

}  // namespace traingraph::metal
