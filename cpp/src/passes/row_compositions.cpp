// Rows that are normalized, and rows of a table by index.
#include <cmath>

#include "passes/compositions.h"

namespace traingraph::passes {
namespace {

using ir::Scalar;
using ir::Type;
using ir::ValueId;

// Rows as channels of one sample: x (1, rows, elements of a row), and a batch norm over it.
struct Rows {
  Type type;
  Shape shape;
  ir::BatchNormAttributes attributes;

  Rows(const ir::Graph& graph, const ir::Node& node, ValueId x) : type(graph.type(x)) {
    const auto& a = std::get<ir::RowNormAttributes>(node.attributes);
    std::int64_t count = 1;
    for (auto k = static_cast<std::size_t>(a.axis); k < type.shape.size(); ++k) {
      count *= type.shape[k];
    }
    shape = {1, type.elements() / count, count};
    attributes.epsilon = a.epsilon;
  }
  ValueId planes(ir::Graph& graph, ValueId x) const { return ops::reshape(graph, x, shape); }
  ValueId per_row(ir::Graph& graph, double value) const {
    return ops::filled(graph, {type.data_type, {shape[1]}, false}, value);
  }
  std::vector<ValueId> normalized(ir::Graph& graph, ValueId x) const {
    const std::vector<ValueId> operands = {x, per_row(graph, 1), per_row(graph, 0)};
    return graph.node(ops::apply(graph, ir::Op::batch_norm, attributes, operands)).outputs;
  }
};

// (…) as a list.
ValueId flat(ir::Graph& graph, ValueId x) {
  return ops::reshape(graph, x, {graph.type(x).elements()});
}

// Sums of the values (n) or (n, dimension) at rows of zeros.
ValueId scattered(ir::Graph& graph, ValueId values, ValueId rows, Shape onto, bool adds) {
  const ir::ScatterAttributes placing{0, adds, std::move(onto), false};
  return ops::apply1(graph, ir::Op::scatter, placing, {values, rows});
}

// Per row of a table (count, 1): how often it is picked, or, unless it adds, 1 where it is.
ValueId picks_of(ir::Graph& graph, DataType type, ValueId rows, std::int64_t count, bool adds) {
  const ValueId ones = ops::filled(graph, {type, graph.type(rows).shape, false}, 1);
  return ops::reshape(graph, scattered(graph, ones, rows, {count}, adds), {count, 1});
}

// (Σ |x|^order)^(1/order) of rows as two factors (count, 1), of which the product may be too large:
// the largest |x|, and the norm of the row over it.
struct Norms {
  ValueId largest, share;
};
Norms norms(ir::Graph& graph, ValueId x, double order) {
  const DataType type = graph.type(x).data_type;
  const ValueId sizes = ops::unary(graph, Scalar::absolute, x);
  const ValueId largest =
      ops::apply1(graph, ir::Op::extremum, ir::ExtremumAttributes{1, true, false}, {sizes});
  if (std::isinf(order)) return {largest, number(graph, type, 1)};
  const ValueId divisor = ops::binary(graph, Scalar::where_nonzero, largest, largest, 1);
  const ValueId parts = ops::binary(graph, Scalar::divide, sizes, divisor);
  const auto raised = [&](ValueId to, double power) {
    return power == 1 ? to : ops::binary(graph, Scalar::pow, to, number(graph, type, power));
  };
  const ValueId sum = ops::reduce(graph, ir::ReduceKind::sum, raised(parts, order), {1});
  return {largest, raised(sum, 1 / order)};
}

}  // namespace

std::vector<ValueId> compose_row_norm(ir::Graph& graph, const ir::Node& node) {
  const Rows rows(graph, node, node.inputs[0]);
  std::vector<ValueId> results = rows.normalized(graph, rows.planes(graph, node.inputs[0]));
  for (std::size_t k = 0; k < results.size(); ++k) {
    const Type type = graph.type(node.outputs[k]);
    results[k] = ops::reshape(graph, results[k], type.shape, type.batched);
  }
  return results;
}

// With x^ = (x - mean) inverse and c = mean of dy x^: r = dy - mean of dy - x^ c, dx = inverse r.
// What is left of a row of few elements is far smaller than dy. So what rounding has left in r
// along ones and x^ is taken out once more: mean of r x^ is c epsilon inverse^2, and no other.
std::vector<ValueId> compose_row_norm_gradient(ir::Graph& graph, const ir::Node& node) {
  const Rows rows(graph, node, node.inputs[1]);
  const ValueId dy = rows.planes(graph, node.inputs[0]), x = rows.planes(graph, node.inputs[1]);
  const std::vector<ValueId> found = rows.normalized(graph, x);
  const auto statistic = [&](ValueId of) { return ops::reshape(graph, of, {1, rows.shape[1], 1}); };
  const auto binary = [&](Scalar function, ValueId a, ValueId b) {
    return ops::binary(graph, function, a, b);
  };
  const auto mean = [&](ValueId of) {
    const ValueId sum = ops::reduce(graph, ir::ReduceKind::sum, of, {2});
    return ops::unary(graph, Scalar::scale, sum, 1 / static_cast<double>(rows.shape[2]));
  };
  const auto centered = [&](ValueId of) { return binary(Scalar::subtract, of, mean(of)); };
  const ValueId inverse = statistic(found[2]);
  const ValueId moved = centered(binary(Scalar::subtract, x, statistic(found[1])));
  const ValueId normal = binary(Scalar::multiply, moved, inverse);
  const auto along = [&](ValueId of) { return mean(binary(Scalar::multiply, of, normal)); };
  const auto without = [&](ValueId of, ValueId share) {
    return binary(Scalar::subtract, of, binary(Scalar::multiply, normal, share));
  };
  const ValueId gradient = centered(dy), share = along(gradient);
  const ValueId rest = centered(without(gradient, share));
  const ValueId left = ops::unary(graph, Scalar::scale, ops::unary(graph, Scalar::square, inverse),
                                  rows.attributes.epsilon);
  const ValueId wrong =
      binary(Scalar::subtract, along(rest), binary(Scalar::multiply, share, left));
  const ValueId dx = binary(Scalar::multiply, without(rest, wrong), inverse);
  return {ops::reshape(graph, dx, rows.type.shape, rows.type.batched)};
}

std::vector<ValueId> compose_embedding(ir::Graph& graph, const ir::Node& node) {
  const ValueId rows = ops::apply1(graph, ir::Op::gather, ir::AxisAttributes{0},
                                   {node.inputs[0], flat(graph, node.inputs[1])});
  const Type result = graph.type(node.outputs[0]);
  return {ops::reshape(graph, rows, result.shape, result.batched)};
}

std::vector<ValueId> compose_embedding_gradient(ir::Graph& graph, const ir::Node& node) {
  const auto& a = std::get<ir::EmbeddingAttributes>(node.attributes);
  const Type result = graph.type(node.outputs[0]);
  const ValueId picked = flat(graph, node.inputs[1]);
  const std::int64_t picks = graph.type(picked).shape[0];
  const ValueId dy = ops::reshape(graph, node.inputs[0], {picks, result.shape[1]});
  ValueId sums = scattered(graph, dy, picked, result.shape, true);
  if (a.padding >= 0) {
    const ValueId one = ops::filled(graph, {result.data_type, {1, 1}, false}, 1);
    const ir::PadAttributes at{0, {a.padding}, a.count};
    const ValueId padding = ops::apply1(graph, ir::Op::pad, at, {one});
    const ValueId others = ops::unary(graph, Scalar::affine, padding, -1, 1);
    sums = ops::binary(graph, Scalar::where_nonzero, sums, others, 0);
  }
  if (!a.by_frequency) return {sums};
  const ValueId times = picks_of(graph, result.data_type, picked, a.count, true);
  const ValueId divisor = ops::binary(graph, Scalar::where_nonzero, times, times, 1);
  return {ops::binary(graph, Scalar::divide, sums, divisor)};
}

// Rows that nobody picks, and those of no larger norm, are multiplied by 1, those with infinity
// by 0.
std::vector<ValueId> compose_limit_rows(ir::Graph& graph, const ir::Node& node) {
  const auto& a = std::get<ir::RowLimitAttributes>(node.attributes);
  const ValueId x = node.inputs[0];
  const Type type = graph.type(x);
  const ValueId picked =
      picks_of(graph, type.data_type, flat(graph, node.inputs[1]), type.shape[0], false);
  const Norms norm = norms(graph, x, a.order);
  ir::ScalarList list{4, {}, {}};
  const int row = 0, largest = 1, share = 2, is_picked = 3;
  const auto constant = [&](double value) { return list.add(Scalar::constant, -1, -1, value); };
  const int finite = list.add(Scalar::difference, largest, constant(HUGE_VAL));
  const int product =
      list.add(Scalar::where_nonzero, list.add(Scalar::multiply, largest, share), finite, HUGE_VAL);
  // 0 where the norm is above the maximum, so not for NaN.
  const int below = list.add(Scalar::minimum_gradient, constant(1),
                             list.add(Scalar::difference, product, constant(a.maximum)));
  const int above = list.add(Scalar::where_nonzero, constant(0), below, 1);
  const int limited = list.add(Scalar::multiply, above, is_picked);
  // maximum / (norm + 1e-7), both over the largest one
  const int divisor =
      list.add(Scalar::add, share, list.add(Scalar::divide, constant(1e-7), largest));
  const int ratio =
      list.add(Scalar::divide, list.add(Scalar::divide, constant(a.maximum), largest), divisor);
  const int scale = list.add(Scalar::where_nonzero, ratio, finite, 0);
  list.results = {
      list.add(Scalar::multiply, row, list.add(Scalar::where_nonzero, scale, limited, 1))};
  return ops::elementwise(graph, std::move(list), {x, norm.largest, norm.share, picked});
}

}  // namespace traingraph::passes
