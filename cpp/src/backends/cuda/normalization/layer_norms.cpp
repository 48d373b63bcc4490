// Finds layer norms in a fused graph: row_norm, then x^ gamma + beta; back, dy gamma and dy x^, the
// sums of dy x^ and dy, row_norm_gradient, and the sum with the gradient of a residual branch.
#include "backends/cuda/normalization/layer_norms.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "backends/cuda/kernel/node_kernel.h"

namespace traingraph::cuda {
namespace {

using ir::kNone;
using ir::Node;
using ir::NodeId;
using ir::Op;
using ir::Scalar;
using ir::ValueId;

// What a gradient op takes over from others.
struct GradientParts {
  NodeId products = kNone;               // dy gamma and dy x^
  NodeId gradient = kNone, sum = kNone;  // row_norm_gradient; the sum with another branch, or kNone
  ValueId dy = kNone, added = kNone, dx = kNone;
  NodeId of_gamma = kNone, of_beta = kNone;  // sums over all rows
  std::vector<NodeId> of_dx;
};

class LayerNorms {
 public:
  LayerNorms(ir::Graph graph, const Backend& backend, int multiprocessors)
      : graph_(std::move(graph)),
        backend_(backend),
        multiprocessors_(multiprocessors),
        readers_(ir::consumers(graph_)),
        gone_(graph_.nodes.size(), false) {}

  ir::Graph run() {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) join(static_cast<NodeId>(n));
    return ir::without_nodes(graph_, gone_);
  }

 private:
  const std::vector<NodeId>& readers(ValueId id) const {
    return readers_[static_cast<std::size_t>(id)];
  }
  // Whether these nodes alone need the value.
  bool is_read_by(ValueId id, const std::vector<NodeId>& nodes) const {
    return !graph_.value(id).keep && readers(id) == nodes;
  }
  bool is_plain(ValueId id) const { return graph_.value(id).layout.plain(); }
  bool is_like(ValueId a, ValueId b) const {
    return graph_.type(a).shape == graph_.type(b).shape &&
           graph_.type(a).data_type == graph_.type(b).data_type;
  }

  // The list of an elementwise node of so many instructions, results and inputs; null: another one.
  const ir::ScalarList* list_of(NodeId id, std::size_t inputs, std::size_t instructions,
                                std::size_t results) const {
    const Node& node = graph_.node(id);
    if (node.op != Op::elementwise || node.inputs.size() != inputs) return nullptr;
    const ir::ScalarList& list = std::get<ir::ElementwiseAttributes>(node.attributes).list;
    return list.code.size() == instructions && list.results.size() == results ? &list : nullptr;
  }

  // The operand of a function beside this one, where it is one of its two operands; else kNone.
  static ValueId beside(const Node& node, const ir::Instruction& code, Scalar function,
                        ValueId operand) {
    const auto inputs = static_cast<int>(node.inputs.size());
    if (code.function != function || std::min(code.x, code.y) < 0) return kNone;
    if (std::max(code.x, code.y) >= inputs) return kNone;
    const ValueId x = node.inputs[static_cast<std::size_t>(code.x)];
    const ValueId y = node.inputs[static_cast<std::size_t>(code.y)];
    if (x == operand) return y;
    return y == operand ? x : kNone;
  }

  // row_norm with what x^ gamma + beta reads and gives.
  std::optional<Node> with_affine(const Node& norm, NodeId id) const {
    const ValueId x_hat = norm.outputs[0];
    const ir::ScalarList* list = list_of(id, 3, 2, 1);
    const Node& affine = graph_.node(id);
    if (list == nullptr || affine.phase != norm.phase || list->results[0] != 4) return {};
    const ValueId gamma = beside(affine, list->code[0], Scalar::multiply, x_hat);
    const ir::Instruction& last = list->code[1];
    const bool reads_product = last.function == Scalar::add && std::max(last.x, last.y) == 3;
    const int shift = std::min(last.x, last.y);
    if (gamma == kNone || !reads_product || shift < 0 || shift > 2) return {};
    const ValueId beta = affine.inputs[static_cast<std::size_t>(shift)];
    if (beta == x_hat || !is_like(beta, gamma) || !is_like(affine.outputs[0], x_hat)) return {};
    const bool is_parameter_write = graph_.value(affine.outputs[0]).writes != kNone;
    if (is_parameter_write || !is_plain(affine.outputs[0])) return {};
    Node joined = norm;
    std::get<ir::RowNormAttributes>(joined.attributes).affine = true;
    joined.inputs = {norm.inputs[0], gamma, beta};
    joined.outputs = {affine.outputs[0]};
    return joined;
  }

  // Whether the node sums the value over these first axes.
  bool sums(NodeId id, ValueId value, int axes) const {
    const Node& node = graph_.node(id);
    if (node.op != Op::reduce || node.inputs[0] != value || axes == 0) return false;
    const auto& attributes = std::get<ir::ReduceAttributes>(node.attributes);
    std::vector<int> first(static_cast<std::size_t>(axes));
    std::iota(first.begin(), first.end(), 0);
    return attributes.kind == ir::ReduceKind::sum && attributes.axes == first;
  }

  // The gradient of a layer norm whose products dy gamma and dy x^ this node computes.
  std::optional<GradientParts> gradient_of(const Node& norm, ValueId gamma, NodeId id) const {
    const ValueId x_hat = norm.outputs[0], x = norm.inputs[0];
    const int axes = std::get<ir::RowNormAttributes>(norm.attributes).axis;
    GradientParts parts;
    parts.products = id;
    const ir::ScalarList* list = list_of(id, 3, 2, 2);
    if (list == nullptr) return {};
    const Node& products = graph_.node(id);
    ValueId dy_gamma = kNone, dy_x_hat = kNone, other_dy = kNone;
    for (std::size_t k = 0; k < 2; ++k) {
      const int code = list->results[k] - 3;
      if (code < 0) return {};
      const ir::Instruction& product = list->code[static_cast<std::size_t>(code)];
      const ValueId with_x_hat = beside(products, product, Scalar::multiply, x_hat);
      const ValueId with_gamma = beside(products, product, Scalar::multiply, gamma);
      (with_x_hat != kNone ? dy_x_hat : dy_gamma) = products.outputs[k];
      (with_x_hat != kNone ? parts.dy : other_dy) = with_x_hat != kNone ? with_x_hat : with_gamma;
    }
    if (parts.dy == kNone || parts.dy != other_dy || !is_like(parts.dy, x)) return {};
    if (!is_plain(parts.dy) || readers(dy_gamma).size() != 1 || readers(dy_x_hat).size() != 1) {
      return {};
    }
    parts.gradient = readers(dy_gamma)[0];
    parts.of_gamma = readers(dy_x_hat)[0];
    const Node& gradient = graph_.node(parts.gradient);
    const bool is_gradient = gradient.op == Op::row_norm_gradient &&
                             gradient.inputs == std::vector<ValueId>{dy_gamma, x} &&
                             gradient.attributes == norm.attributes;
    if (!is_gradient || !sums(parts.of_gamma, dy_x_hat, axes)) return {};
    if (graph_.value(dy_gamma).keep || graph_.value(dy_x_hat).keep) return {};
    const auto& of_dy = readers(parts.dy);
    const auto beta = std::find_if(of_dy.begin(), of_dy.end(),
                                   [&](NodeId reader) { return sums(reader, parts.dy, axes); });
    if (beta == of_dy.end()) return {};
    parts.of_beta = *beta;
    parts.dx = gradient.outputs[0];
    take_sum(parts);
    find_sums_of_dx(parts);
    return parts;
  }

  // The one op that reads dx, where it adds the gradient of another branch.
  void take_sum(GradientParts& parts) const {
    const ValueId dx = parts.dx;
    if (readers(dx).size() != 1 || graph_.value(dx).keep) return;
    const NodeId id = readers(dx)[0];
    const ir::ScalarList* list = list_of(id, 2, 1, 1);
    if (list == nullptr || graph_.node(id).phase != graph_.node(parts.gradient).phase) return;
    const ValueId added = beside(graph_.node(id), list->code[0], Scalar::add, dx);
    const ValueId sum = graph_.node(id).outputs[0];
    if (added == kNone || added == dx || !is_like(added, dx) || !is_like(sum, dx)) return;
    if (!is_plain(added) || !is_plain(sum) || graph_.value(sum).writes != kNone) return;
    // It was there before the sums, so that it does not wait for them.
    const NodeId first = std::min({parts.products, parts.of_gamma, parts.of_beta});
    if (graph_.value(added).producer >= first) return;
    parts.sum = id;
    parts.added = added;
    parts.dx = sum;
  }

  // Sums of dx over all rows, as the gradient of a bias is, seen as a matrix.
  void find_sums_of_dx(GradientParts& parts) const {
    const auto& attributes =
        std::get<ir::RowNormAttributes>(graph_.node(parts.gradient).attributes);
    const Shape matrix = {rows_of(parts.dx, attributes), columns_of(parts.dx, attributes)};
    std::vector<ValueId> views = {parts.dx};
    for (std::size_t k = 0; k < views.size(); ++k) {
      for (NodeId reader : readers(views[k])) {
        const Node& node = graph_.node(reader);
        if (node.op == Op::reshape) views.push_back(node.outputs[0]);
        if (graph_.type(views[k]).shape == matrix && sums(reader, views[k], 1)) {
          parts.of_dx.push_back(reader);
        }
      }
    }
  }

  std::int64_t rows_of(ValueId x, const ir::RowNormAttributes& attributes) const {
    return graph_.type(x).elements() / columns_of(x, attributes);
  }
  std::int64_t columns_of(ValueId x, const ir::RowNormAttributes& attributes) const {
    const Shape& shape = graph_.type(x).shape;
    std::int64_t columns = 1;
    for (auto k = static_cast<std::size_t>(attributes.axis); k < shape.size(); ++k) {
      columns *= shape[k];
    }
    return columns;
  }

  void join(NodeId id) {
    const Node norm = graph_.node(id);
    if (norm.op != Op::row_norm || norm.inputs.size() != 1) return;
    const ValueId x_hat = norm.outputs[0];
    const bool reads_statistics =
        std::any_of(norm.outputs.begin() + 1, norm.outputs.end(),
                    [&](ValueId value) { return !is_read_by(value, {}); });
    const std::vector<NodeId> of_x_hat = readers(x_hat);
    if (reads_statistics || graph_.value(x_hat).keep || of_x_hat.empty() || of_x_hat.size() > 2) {
      return;
    }
    const std::optional<Node> joined = with_affine(norm, of_x_hat[0]);
    if (!joined || !backend_.supports(graph_, *joined).yes) return;
    if (of_x_hat.size() == 2) {
      const auto parts = gradient_of(norm, joined->inputs[1], of_x_hat[1]);
      if (!parts || !join_gradient(*parts, joined->inputs[1])) return;
    }
    replace(id, *joined);
    gone_[static_cast<std::size_t>(of_x_hat[0])] = true;
  }

  void replace(NodeId id, const Node& joined) {
    graph_.node(id) = joined;
    for (ValueId output : joined.outputs) graph_.value(output).producer = id;
  }

  bool join_gradient(const GradientParts& parts, ValueId gamma) {
    Node joined = graph_.node(parts.gradient);
    auto& attributes = std::get<ir::RowNormAttributes>(joined.attributes);
    attributes.affine = true;
    joined.inputs = {parts.dy, joined.inputs[1], gamma};
    if (parts.added != kNone) joined.inputs.push_back(parts.added);
    joined.outputs = {parts.dx};
    if (!backend_.supports(graph_, joined).yes) return false;
    const std::int64_t rows = rows_of(parts.dx, attributes);
    const std::int64_t columns = columns_of(parts.dx, attributes);
    const std::int64_t count = layer_norm_parts(rows, columns, multiprocessors_);
    Shape per_column = graph_.type(parts.dx).shape;
    std::fill_n(per_column.begin(), attributes.axis, 1);
    per_column[0] = count;
    replace(parts.gradient, joined);
    const auto give = [&](const Shape& shape, const std::vector<NodeId>& sums) {
      const ValueId value = graph_.add_result(parts.gradient, {DataType::kFloat32, shape});
      for (NodeId sum : sums) graph_.node(sum).inputs = {value};
    };
    give(per_column, {parts.of_gamma});
    give(per_column, {parts.of_beta});
    give({count, columns}, parts.of_dx);
    gone_[static_cast<std::size_t>(parts.products)] = true;
    if (parts.sum != kNone) gone_[static_cast<std::size_t>(parts.sum)] = true;
    return true;
  }

  ir::Graph graph_;
  const Backend& backend_;
  int multiprocessors_;
  std::vector<std::vector<NodeId>> readers_;  // of the values that there were at first
  std::vector<bool> gone_;
};

}  // namespace

ir::Graph with_layer_norms(ir::Graph graph, const Backend& backend, int multiprocessors) {
  return LayerNorms(std::move(graph), backend, multiprocessors).run();
}

}  // namespace traingraph::cuda
