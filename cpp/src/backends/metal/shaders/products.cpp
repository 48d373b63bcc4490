// Reductions, matrix products and convolutions by hand-written shaders: for what no kernel of Metal
// Performance Shaders takes.
#include "backends/metal/shaders/shader_kernel.h"

namespace traingraph::metal {
namespace {

std::unique_ptr<Kernel> make_reduce(const ir::Graph& graph, const ir::Node& node, Device& device) {
  const auto& attributes = std::get<ir::ReduceAttributes>(node.attributes);
  const Shape& source = graph.type(node.inputs[0]).shape;
  const Shape& shape = graph.type(node.outputs[0]).shape;
  const shader::Strides dense = broadcast_strides(source, source);
  shader::Reduce a{};
  a.kind = static_cast<int>(attributes.kind);
  a.kept = extents_of(shape);
  a.kept_strides = dense;
  Shape reduced;
  for (std::size_t k = 0; k < attributes.axes.size(); ++k) {
    const auto axis = static_cast<std::size_t>(attributes.axes[k]);
    reduced.push_back(source[axis]);
    a.reduced_strides.step[k] = dense.step[axis];
  }
  a.reduced = extents_of(reduced);
  a.count = narrow(element_count(reduced));
  return dispatch(device, "reduce", {node.inputs[0], node.outputs[0]}, a, element_count(shape));
}

// Leading axes, as strides in elements of whole matrices.
shader::Strides matrix_strides(const Shape& operand, const Shape& y, std::int64_t matrix) {
  const Shape leading(operand.begin(), operand.end() - 2);
  shader::Strides strides = broadcast_strides(leading, Shape(y.begin(), y.end() - 2));
  for (int& step : strides.step) step *= narrow(matrix);
  return strides;
}

std::unique_ptr<Kernel> make_matmul(const ir::Graph& graph, const ir::Node& node, Device& device) {
  const auto& attributes = std::get<ir::MatmulAttributes>(node.attributes);
  const Shape& a = graph.type(node.inputs[0]).shape;
  const Shape& b = graph.type(node.inputs[1]).shape;
  const Shape& y = graph.type(node.outputs[0]).shape;
  const std::int64_t rows = y[y.size() - 2], columns = y[y.size() - 1];
  const std::int64_t inner = a[a.size() - (attributes.transpose_a ? 2 : 1)];
  shader::Matmul m{};
  m.rows = narrow(rows);
  m.columns = narrow(columns);
  m.inner = narrow(inner);
  m.a_row = attributes.transpose_a ? 1 : m.inner;
  m.a_inner = attributes.transpose_a ? m.rows : 1;
  m.b_inner = attributes.transpose_b ? 1 : m.columns;
  m.b_column = attributes.transpose_b ? m.inner : 1;
  m.alpha = static_cast<float>(attributes.alpha);
  m.matrices = extents_of(Shape(y.begin(), y.end() - 2));
  m.a_matrix = matrix_strides(a, y, rows * inner);
  m.b_matrix = matrix_strides(b, y, inner * columns);
  return dispatch(device, "matmul", {node.inputs[0], node.inputs[1], node.outputs[0]}, m,
                  element_count(y));
}

// x and y of the three ops of a convolution.
template <int x_input, int y_input>
std::unique_ptr<Kernel> make_convolution(const ir::Graph& graph, const ir::Node& node,
                                         Device& device) {
  const auto operand = [&](int input) -> const Shape& {
    return graph.type(input < 0 ? node.outputs[0] : node.inputs[static_cast<std::size_t>(input)])
        .shape;
  };
  const auto arguments = convolution_of(std::get<ir::ConvolutionAttributes>(node.attributes),
                                        operand(x_input), operand(y_input));
  return dispatch(device, ir::name(node.op), {node.inputs[0], node.inputs[1], node.outputs[0]},
                  arguments, graph.type(node.outputs[0]).elements());
}

}  // namespace

shader::Convolution convolution_of(const ir::ConvolutionAttributes& a, const Shape& x,
                                   const Shape& y) {
  return {narrow(x[0]), narrow(x[1]), narrow(x[2]),     narrow(x[3]),       narrow(y[1]),
          narrow(y[2]), narrow(y[3]), narrow(a.groups), window_of(a.window)};
}

std::vector<KernelEntry> reduce_entries() {
  return {{ir::Op::reduce, supports_float, make_reduce}};
}

std::vector<KernelEntry> matmul_entries() {
  return {{ir::Op::matmul, supports_float, make_matmul}};
}

std::vector<KernelEntry> convolution_entries() {
  return {
      {ir::Op::convolution, supports_float, make_convolution<0, -1>},
      {ir::Op::convolution_gradient_data, supports_float, make_convolution<-1, 0>},
      {ir::Op::convolution_gradient_weights, supports_float, make_convolution<1, 0>},
  };
}

}  // namespace traingraph::metal
