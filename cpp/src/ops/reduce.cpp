// Sum, norm and count of non-finite elements over axes that keep extent 1. Only the sum has a
// gradient.
#include <algorithm>

#include "ops/emit.h"

namespace traingraph::ops {
namespace {

using ir::ReduceAttributes;
using ir::ReduceKind;
using ir::Type;
using ir::ValueId;

std::vector<Type> infer(const Inference& in) {
  in.expect_inputs(1, 1);
  const auto& a = in.get<ReduceAttributes>();
  Type result = in.type(0);
  for (int axis : a.axes) {
    if (axis < 0 || axis >= result.rank()) {
      in.fail("expected an axis below " + std::to_string(result.rank()) + " but got " +
              std::to_string(axis));
    }
    result.shape[static_cast<std::size_t>(axis)] = 1;
    if (axis == 0) result.batched = false;
  }
  if (ir::is_half(result.data_type)) result.data_type = DataType::kFloat32;
  return {result};
}

// Sum: dy broadcast. Counts have none, nor have norms: they are for updates alone.
void gradient(Gradient& g) {
  const Type type = g.graph.type(g.input(0));
  if (g.get<ReduceAttributes>().kind != ReduceKind::sum) return;
  g.set(0, broadcast(g.graph, g.result_gradient(), type));
}

}  // namespace

const Definition reduce_definition{infer, gradient};

ValueId reduce(ir::Graph& graph, ReduceKind kind, ValueId x, std::vector<int> axes) {
  return apply1(graph, ir::Op::reduce, ReduceAttributes{kind, std::move(axes)}, {x});
}

ValueId reduce_all(ir::Graph& graph, ReduceKind kind, ValueId x) {
  std::vector<int> axes;
  for (int axis = 0; axis < graph.type(x).rank(); ++axis) axes.push_back(axis);
  return reshape(graph, reduce(graph, kind, x, std::move(axes)), {});
}

ValueId reduce_to(ir::Graph& graph, ValueId x, Type type) {
  const Type from = graph.type(x);
  const int extra = from.rank() - type.rank();
  std::vector<int> axes;
  for (int axis = 0; axis < from.rank(); ++axis) {
    const std::int64_t extent = from.shape[static_cast<std::size_t>(axis)];
    const std::int64_t wanted =
        axis < extra ? 1 : type.shape[static_cast<std::size_t>(axis - extra)];
    if (extent != wanted) axes.push_back(axis);
  }
  if (!axes.empty()) x = reduce(graph, ReduceKind::sum, x, std::move(axes));
  // A batch of one loses its axis, too, so that the nodes are those of larger ones.
  const Type left = graph.type(x);
  const bool is_one = left.batched && !type.batched && left.shape[0] == 1;
  if (extra == 0 && !is_one) return x;
  return apply1(graph, ir::Op::reshape, ir::ReshapeAttributes{type.shape, type.batched}, {x});
}

}  // namespace traingraph::ops
