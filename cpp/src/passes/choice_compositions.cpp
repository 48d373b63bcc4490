// Comparisons, largest elements and classes.
#include <algorithm>
#include <numeric>

#include "ir/extents.h"
#include "passes/compositions.h"

namespace traingraph::passes {
namespace {

using ir::Comparison;
using ir::Scalar;
using ir::Type;
using ir::ValueId;

// An index of windows above 255 elements is of int32, else a byte.
constexpr std::int64_t kLeastOfWideIndex = 256;

// x (outer, extent, inner) as planes → the largest along the extent and its place, both
// (outer, 1, 1, inner): of equals the first, and NaN before numbers, as the extremum has it.
std::vector<ValueId> largest_of(ir::Graph& graph, ValueId x, std::int64_t rows, bool wide_index) {
  ir::PoolingAttributes pooling;
  pooling.kind = ir::PoolingKind::max;
  pooling.with_index = true;
  pooling.window.kernel[0] = wide_index ? std::max(rows, kLeastOfWideIndex) : rows;
  pooling.window.padding_after[0] = pooling.window.kernel[0] - rows;
  return graph.node(ops::apply(graph, ir::Op::pooling, pooling, {x})).outputs;
}

// A bool, true where x is 1 and false where it is 0: the index of the larger of 1/2 and x.
ValueId truth(ir::Graph& graph, ValueId x) {
  const Type type = graph.type(x);
  const ValueId column = ops::reshape(graph, x, {type.elements(), 1, 1, 1}, type.batched);
  const ValueId second = ops::constant(graph, {type.data_type, {1, 1, 2, 1}, false}, {0, 1});
  const ValueId pairs = ops::binary(graph, Scalar::where_nonzero, column, second, 0.5);
  const ValueId index = largest_of(graph, pairs, 2, false)[1];
  graph.value(index).type.data_type = DataType::kBoolean;
  return ops::reshape(graph, index, type.shape, type.batched);
}

// 1 where a bool is true, else 0.
ValueId number_of(ir::Graph& graph, ValueId x) {
  const ValueId one = number(graph, DataType::kFloat32, 1);
  return ops::apply1(graph, ir::Op::select, ir::SelectAttributes{}, {x, one});
}

// 1 where the relation holds, else 0. `not_above` is 0 where x > y, 1/2 where they are equal, and 1
// else: also where one of them is NaN.
ir::ScalarList relation(Comparison comparison, int inputs) {
  ir::ScalarList list{inputs, {}, {}};
  const int x = 0, y = inputs - 1;
  const auto constant = [&](double value) { return list.add(Scalar::constant, -1, -1, value); };
  const auto is_zero = [&](int of) { return list.add(Scalar::where_nonzero, constant(0), of, 1); };
  const auto is_nonzero = [&](int of) {
    return list.add(Scalar::where_nonzero, constant(1), of, 0);
  };
  const auto without = [&](int of) { return list.add(Scalar::affine, of, -1, -1, 1); };
  const auto not_above = [&](int a, int b) {
    return list.add(Scalar::minimum_gradient, constant(1), list.add(Scalar::difference, a, b));
  };
  const auto result = [&]() -> int {
    switch (comparison) {
      case Comparison::equal:
        return is_zero(list.add(Scalar::difference, x, y));
      case Comparison::not_equal:
      case Comparison::logical_xor:
        return is_nonzero(list.add(Scalar::difference, x, y));
      case Comparison::less:
        return is_zero(not_above(y, x));
      case Comparison::greater:
        return is_zero(not_above(x, y));
      case Comparison::less_or_equal:
        return is_nonzero(without(not_above(y, x)));
      case Comparison::greater_or_equal:
        return is_nonzero(without(not_above(x, y)));
      case Comparison::logical_and:
        return list.add(Scalar::multiply, x, y);
      case Comparison::logical_or:
        return list.add(Scalar::maximum, x, y);
      case Comparison::logical_not:
        return without(x);
      case Comparison::logical_nand:
        return without(list.add(Scalar::multiply, x, y));
      case Comparison::logical_nor:
        return without(list.add(Scalar::maximum, x, y));
    }
    return x;
  };
  list.results = {result()};
  return list;
}

}  // namespace

// Of integers there is no arithmetic.
std::vector<ValueId> compose_compare(ir::Graph& graph, const ir::Node& node) {
  const DataType type = graph.type(node.inputs[0]).data_type;
  if (!is_floating_point(type) && type != DataType::kBoolean) return {};
  std::vector<ValueId> operands = node.inputs;
  if (operands.size() == 2 && operands[0] == operands[1]) operands.pop_back();
  if (type == DataType::kBoolean) {
    for (ValueId& operand : operands) operand = number_of(graph, operand);
  }
  const Comparison comparison = std::get<ir::CompareAttributes>(node.attributes).comparison;
  ir::ScalarList list = relation(comparison, static_cast<int>(operands.size()));
  return {truth(graph, ops::elementwise(graph, std::move(list), operands)[0])};
}

// The window of a max pooling is the whole axis.
std::vector<ValueId> compose_extremum(ir::Graph& graph, const ir::Node& node) {
  const auto& a = std::get<ir::ExtremumAttributes>(node.attributes);
  ValueId x = node.inputs[0];
  const Type type = graph.type(x), result = graph.type(node.outputs[0]);
  const auto axis = static_cast<std::size_t>(a.axis);
  const std::int64_t extent = type.shape[axis], count = result.elements();
  const bool is_bool = type.data_type == DataType::kBoolean;
  if (is_bool) x = number_of(graph, x);
  if (!is_floating_point(graph.type(x).data_type)) return {};
  if (!a.largest) x = ops::unary(graph, Scalar::negate, x);
  std::int64_t inner = 1;
  for (std::size_t k = axis + 1; k < type.shape.size(); ++k) inner *= type.shape[k];
  x = ops::reshape(graph, x, {count / inner, 1, extent, inner}, false);
  const std::vector<ValueId> found = largest_of(graph, x, extent, true);
  ValueId y = found[0], place = found[1];
  if (!a.largest) y = ops::unary(graph, Scalar::negate, y);
  if (is_bool) y = truth(graph, y);
  if (a.numbers) {
    std::vector<double> numbers(static_cast<std::size_t>(extent));
    std::iota(numbers.begin(), numbers.end(), 0);
    const ValueId counted =
        ops::constant(graph, {DataType::kFloat32, {extent}, false}, std::move(numbers));
    place = ops::apply1(graph, ir::Op::gather, ir::AxisAttributes{0},
                        {counted, ops::reshape(graph, place, {count})});
  }
  return {ops::reshape(graph, y, result.shape, result.batched),
          ops::reshape(graph, place, result.shape, result.batched)};
}

// Ones are written at the classes; -1 is no place.
std::vector<ValueId> compose_one_hot(ir::Graph& graph, const ir::Node& node) {
  const DataType type = std::get<ir::OneHotAttributes>(node.attributes).type;
  const Type classes = graph.type(node.inputs[0]), result = graph.type(node.outputs[0]);
  const ValueId ones = ops::filled(graph, {type, classes.shape, classes.batched}, 1);
  const ir::ScatterAttributes placing{1, false, result.shape, result.batched};
  return {ops::apply1(graph, ir::Op::scatter, placing, {ones, node.inputs[0]})};
}

}  // namespace traingraph::passes
