// The op elementwise: broadcasting, its gradient by differentiating the scalar list, and short
// forms such as cast and broadcast.
#include <algorithm>

#include <traingraph/errors.h>

#include "ir/scalar_gradient.h"
#include "ir/scalar_simplify.h"
#include "ops/emit.h"

namespace traingraph::ops {
namespace {

using ir::ElementwiseAttributes;
using ir::ScalarList;
using ir::Type;
using ir::ValueId;

// Results have the broadcast shape; axis 0 stays the batch when an input brings it there.
std::vector<Type> infer(const Inference& in) {
  const auto& a = in.get<ElementwiseAttributes>();
  in.expect_inputs(static_cast<std::size_t>(a.list.inputs),
                   static_cast<std::size_t>(a.list.inputs));
  for (std::size_t i = 0; i < in.inputs.size(); ++i) {
    if (is_floating_point(in.type(i).data_type)) continue;
    throw DataTypeError(std::string("[elementwise] expected floating-point operands but got ") +
                        name(in.type(i).data_type) + ir::where(in.graph, in.graph.layer));
  }
  const Type result = in.broadcast(ir::joint_type(in.graph, in.inputs), a.shape, a.shape_batched);
  std::vector<Type> results(a.list.results.size(), result);
  if (a.result_types.empty()) return results;
  if (a.result_types.size() != results.size()) {
    in.fail("expected " + std::to_string(results.size()) + " result types but got " +
            std::to_string(a.result_types.size()));
  }
  for (std::size_t k = 0; k < results.size(); ++k) results[k].data_type = a.result_types[k];
  return results;
}

void gradient(Gradient& g) {
  const auto& a = g.get<ElementwiseAttributes>();
  std::vector<char> wanted;
  for (std::size_t i = 0; i < g.node.inputs.size(); ++i) wanted.push_back(g.wants(i) ? 1 : 0);
  const ScalarList full = ir::differentiated(a.list, wanted);
  std::vector<ValueId> operands(g.node.inputs);
  operands.insert(operands.end(), g.node.outputs.begin(), g.node.outputs.end());
  for (std::size_t k = 0; k < g.node.outputs.size(); ++k) {
    operands.push_back(g.result_gradient(k));
  }
  std::vector<int> kept;
  ScalarList list = ir::without_dead_code(ir::simplified(full), kept);
  std::vector<ValueId> inputs;
  for (int k : kept) {
    ValueId operand = operands[static_cast<std::size_t>(k)];
    // Nothing flows into this result: its gradient is zero.
    if (operand == ir::kNone) operand = filled(g.graph, g.graph.type(g.result(0)), 0);
    inputs.push_back(operand);
  }
  const Type type = g.graph.type(g.result(0));
  // Operands often share one gradient (both of an addition): it is one result. A gradient that is
  // an operand of the list as it stands (again an addition) needs no op at all.
  const std::vector<int> registers = list.results;
  list.results.clear();
  for (int reg : registers) {
    const bool known = std::count(list.results.begin(), list.results.end(), reg) > 0;
    if (reg >= list.inputs && !known) list.results.push_back(reg);
  }
  const std::vector<int> computed = list.results;
  std::vector<ValueId> outputs;
  if (!computed.empty()) {
    // The result's shape, even where only smaller operands are read.
    ElementwiseAttributes attributes{std::move(list), type.shape, type.batched, {}};
    const ir::NodeId node = apply(g.graph, ir::Op::elementwise, attributes, inputs);
    outputs = g.graph.node(node).outputs;
  }
  std::size_t k = 0;
  for (std::size_t i = 0; i < g.node.inputs.size(); ++i) {
    if (!g.wants(i)) continue;
    const int reg = registers[k++];
    const auto at = std::find(computed.begin(), computed.end(), reg) - computed.begin();
    const bool is_operand = at == static_cast<std::ptrdiff_t>(computed.size());
    const ValueId gradient = is_operand
                                 ? broadcast(g.graph, inputs[static_cast<std::size_t>(reg)], type)
                                 : outputs[static_cast<std::size_t>(at)];
    const Type input = g.graph.type(g.input(i));
    const ValueId own = reduce_to(g.graph, gradient, input);
    // A gradient of 16 bits is rounded once, where it is complete, and not in each part.
    g.set(i, ir::is_half(input.data_type) ? own : cast(g.graph, own, input.data_type));
  }
}

bool is_bounded(const ir::Node& node) {
  const ir::ScalarList& list = std::get<ir::ElementwiseAttributes>(node.attributes).list;
  return std::all_of(list.code.begin(), list.code.end(), [](const ir::Instruction& instruction) {
    switch (instruction.function) {
      case ir::Scalar::identity:
      case ir::Scalar::relu:
      case ir::Scalar::relu_gradient:
      case ir::Scalar::sigmoid:
        return true;
      default:
        return false;
    }
  });
}

}  // namespace

const Definition elementwise_definition{
    infer, gradient, {.mixed = Mixed::follows, .stays_finite = is_bounded}};

bool broadcast_shapes(const Shape& a, const Shape& b, Shape& result) {
  const std::size_t rank = std::max(a.size(), b.size());
  result.assign(rank, 1);
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) return false;
    result[rank - 1 - i] = std::max(x, y);
  }
  return true;
}

std::vector<ValueId> elementwise(ir::Graph& graph, ScalarList list, std::vector<ValueId> inputs) {
  const ir::NodeId node =
      apply(graph, ir::Op::elementwise, ElementwiseAttributes{std::move(list), {}, false, {}},
            std::move(inputs));
  return graph.node(node).outputs;
}

ValueId unary(ir::Graph& graph, ir::Scalar function, ValueId x, double p, double q) {
  ScalarList list{1, {{function, 0, -1, p, q}}, {1}};
  return elementwise(graph, std::move(list), {x})[0];
}

ValueId binary(ir::Graph& graph, ir::Scalar function, ValueId x, ValueId y, double p, double q) {
  if (x == y) return elementwise(graph, ScalarList{1, {{function, 0, 0, p, q}}, {1}}, {x})[0];
  ScalarList list{2, {{function, 0, 1, p, q}}, {2}};
  return elementwise(graph, std::move(list), {x, y})[0];
}

ValueId filled(ir::Graph& graph, Type type, double number) {
  ElementwiseAttributes attributes;
  attributes.list = ScalarList{0, {{ir::Scalar::constant, -1, -1, number, 0}}, {0}};
  attributes.shape = type.shape;
  attributes.shape_batched = type.batched;
  const ValueId value = apply1(graph, ir::Op::elementwise, std::move(attributes), {});
  graph.value(value).type.data_type = type.data_type;
  return value;
}

ValueId cast(ir::Graph& graph, ValueId x, DataType type) {
  if (graph.type(x).data_type == type) return x;
  ElementwiseAttributes attributes;
  attributes.list = ScalarList{1, {{ir::Scalar::identity, 0, -1, 0, 0}}, {1}};
  attributes.result_types = {type};
  return apply1(graph, ir::Op::elementwise, std::move(attributes), {x});
}

ValueId broadcast(ir::Graph& graph, ValueId x, Type type) {
  if (graph.type(x).shape == type.shape) return x;
  ElementwiseAttributes attributes;
  attributes.list = ScalarList{1, {{ir::Scalar::identity, 0, -1, 0, 0}}, {1}};
  attributes.shape = type.shape;
  attributes.shape_batched = type.batched;
  return apply1(graph, ir::Op::elementwise, std::move(attributes), {x});
}

}  // namespace traingraph::ops
