// Ops that pick elements by index or by condition: gather, scatter, select, and the check of
// indices.
#include "ops/emit.h"
#include "ops/indices.h"

namespace traingraph::ops {
namespace {

using ir::AxisAttributes;
using ir::ScatterAttributes;
using ir::SelectAttributes;
using ir::Type;
using ir::ValueId;

// The type of what `indices` pick from `tensor` along `axis`.
Type picked(const Inference& in, const Type& tensor, const Type& indices, int axis) {
  if (axis < 0 || axis >= tensor.rank()) {
    in.fail("expected an axis below " + std::to_string(tensor.rank()) + " for shape " +
            to_string(tensor.shape) + " but got " + std::to_string(axis));
  }
  expect_indices(in, 1);
  Type result = tensor;
  const bool any_row = axis == 0 && tensor.batched;
  if (indices.rank() == 1 && tensor.rank() != 1) {
    result.shape[static_cast<std::size_t>(axis)] = indices.shape[0];
    if (any_row || (axis != 0 && indices.batched)) in.fix_batch();
    if (axis == 0) result.batched = !tensor.batched && indices.batched;
    return result;
  }
  bool fits = indices.rank() == tensor.rank();
  for (int k = 0; fits && k < tensor.rank(); ++k) {
    const auto at = static_cast<std::size_t>(k);
    fits = k == axis || indices.shape[at] <= tensor.shape[at];
  }
  if (!fits) {
    in.fail("expected indices of one axis, or like " + to_string(tensor.shape) +
            " and no larger but in axis " + std::to_string(axis) + ", but got " +
            to_string(indices.shape));
  }
  result.shape = indices.shape;
  if (any_row || (axis != 0 && indices.batched != tensor.batched)) in.fix_batch();
  result.batched = indices.batched && tensor.batched == (axis != 0);
  return result;
}

std::vector<Type> infer_gather(const Inference& in) {
  in.expect_inputs(2, 2);
  return {picked(in, in.type(0), in.type(1), in.get<AxisAttributes>().axis)};
}

// dtensor: zeros to which each picked element adds its dy, of 16 bits in float32.
void gradient_of_gather(Gradient& g) {
  const Type tensor = g.graph.type(g.input(0));
  ScatterAttributes adding{g.get<AxisAttributes>().axis, true, tensor.shape, tensor.batched};
  ValueId dy = g.result_gradient();
  if (ir::is_half(g.graph.type(dy).data_type)) dy = cast(g.graph, dy, DataType::kFloat32);
  g.set(0, apply1(g.graph, ir::Op::scatter, std::move(adding), {dy, g.input(1)}));
}

std::vector<Type> infer_scatter(const Inference& in) {
  const auto& a = in.get<ScatterAttributes>();
  const std::size_t inputs = a.onto.empty() ? 3 : 2;
  in.expect_inputs(inputs, inputs);
  const Type tensor = inputs == 3 ? in.type(2) : Type{in.type(0).data_type, a.onto, a.onto_batched};
  const Type places = picked(in, tensor, in.type(1), a.axis);
  if (in.type(0).shape != places.shape) {
    in.fail("expected values of shape " + to_string(places.shape) + ", one per place in " +
            to_string(tensor.shape) + ", but got " + to_string(in.type(0).shape));
  }
  if (in.type(0).data_type != tensor.data_type) {
    in.fail(std::string("expected one data type but got ") + name(in.type(0).data_type) + " and " +
            name(tensor.data_type));
  }
  if (in.type(0).batched != places.batched) in.fix_batch();
  return {tensor};
}

// Adding: dvalues is what the indices pick from dy, dtensor is dy. Otherwise only the value that
// stayed has a gradient, and the tensor where it kept its own.
void gradient_of_scatter(Gradient& g) {
  const auto a = g.get<ScatterAttributes>();
  const ValueId dy = g.result_gradient();
  if (a.adds) {
    if (g.wants(0)) {
      g.set(0, apply1(g.graph, ir::Op::gather, AxisAttributes{a.axis}, {dy, g.input(1)}));
    }
    if (a.onto.empty() && g.wants(2)) g.set(2, dy);
    return;
  }
  const ir::NodeId node =
      apply(g.graph, ir::Op::scatter_gradient, AxisAttributes{a.axis}, {dy, g.input(1)});
  if (g.wants(0)) g.set(0, g.graph.node(node).outputs[0]);
  if (a.onto.empty() && g.wants(2)) g.set(2, g.graph.node(node).outputs[1]);
}

std::vector<Type> infer_scatter_gradient(const Inference& in) {
  in.expect_inputs(2, 2);
  Type writers = in.type(0);
  writers.data_type = DataType::kInt64;
  return {picked(in, in.type(0), in.type(1), in.get<AxisAttributes>().axis), in.type(0), writers};
}

// indices [, what checks before have found] → found (3): a check's number, or -1, the position of
// the first index outside and its value. What was found before stays.
std::vector<Type> infer_check_indices(const Inference& in) {
  in.expect_inputs(1, 2);
  expect_indices(in, 0);
  const Type found{DataType::kInt64, {3}, false};
  if (in.inputs.size() == 2 &&
      (in.type(1).data_type != found.data_type || in.type(1).shape != found.shape)) {
    in.fail("expected what was found before as int64 (3) but got " +
            std::string(name(in.type(1).data_type)) + " " + to_string(in.type(1).shape));
  }
  return {found};
}

// condition (bool), x, y broadcast against each other.
std::vector<Type> infer_select(const Inference& in) {
  in.expect_inputs(2, in.get<SelectAttributes>().where_not ? 2 : 3);
  if (in.type(0).data_type != DataType::kBoolean) {
    in.fail(std::string("expected a bool condition but got ") + name(in.type(0).data_type));
  }
  if (in.inputs.size() == 3 && in.type(1).data_type != in.type(2).data_type) {
    in.fail(std::string("expected one data type but got ") + name(in.type(1).data_type) + " and " +
            name(in.type(2).data_type));
  }
  return {in.broadcast(in.type(1).data_type)};
}

// dy goes to the source that was taken, zero to the other one.
void gradient_of_select(Gradient& g) {
  const ValueId dy = g.result_gradient();
  const bool where_not = g.get<SelectAttributes>().where_not;
  for (std::size_t i = 1; i < g.node.inputs.size(); ++i) {
    if (!g.wants(i)) continue;
    const Type type = g.graph.type(g.input(i));
    const SelectAttributes attributes{i == 2 || where_not};
    const ValueId taken = apply1(g.graph, ir::Op::select, attributes, {g.input(0), dy});
    g.set(i, reduce_to(g.graph, taken, type));
  }
}

IntegerUse indices_of_gather(const ir::Graph& graph, const ir::Node& node) {
  const auto axis = static_cast<std::size_t>(std::get<AxisAttributes>(node.attributes).axis);
  const ir::ValueId maker = graph.value(node.inputs[0]).producer;
  // A table that layers make themselves counts steps (layers/sequences.cpp).
  const bool are_lengths = maker != ir::kNone && graph.node(maker).op == ir::Op::constant;
  return {node.inputs[1], 0, graph.type(node.inputs[0]).shape[axis], are_lengths};
}

IntegerUse indices_of_scatter(const ir::Graph& graph, const ir::Node& node) {
  const auto axis = static_cast<std::size_t>(std::get<ScatterAttributes>(node.attributes).axis);
  return {node.inputs[1], 0, graph.type(node.outputs[0]).shape[axis]};
}

}  // namespace

const Definition gather_definition{
    infer_gather, gradient_of_gather, {.stays_finite = always, .integers = indices_of_gather}};
const Definition scatter_definition{
    infer_scatter, gradient_of_scatter, {.integers = indices_of_scatter}};
const Definition scatter_gradient_definition{infer_scatter_gradient, nullptr};
const Definition check_indices_definition{infer_check_indices, nullptr};
const Definition select_definition{infer_select, gradient_of_select, {.stays_finite = always}};

}  // namespace traingraph::ops
