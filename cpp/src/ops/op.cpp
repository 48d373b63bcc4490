// Applies ops: runs the shape rule and appends the node; also what shape and gradient rules see of
// an application.
#include "ops/op.h"

#include <traingraph/errors.h>

#include "ops/batch_axis.h"
#include "ops/emit.h"

namespace traingraph::ops {

void Inference::fail(const std::string& text) const {
  throw ShapeError("[" + std::string(ir::name(op)) + "] " + text + ir::where(graph, graph.layer));
}

void Inference::expect_inputs(std::size_t least, std::size_t most) const {
  if (inputs.size() >= least && inputs.size() <= most) return;
  std::string expected = std::to_string(least);
  if (most != least) expected += " to " + std::to_string(most);
  fail("expected " + expected + " inputs but got " + std::to_string(inputs.size()));
}

void Inference::expect_rank(std::size_t i, int rank, const char* what) const {
  if (type(i).rank() == rank) return;
  fail("expected " + std::string(what) + " of rank " + std::to_string(rank) + " but got shape " +
       to_string(type(i).shape));
}

ir::Type Inference::broadcast(DataType data_type, const Shape& shape, bool batched) const {
  ir::Type result{data_type, shape, false};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Shape joined;
    if (!broadcast_shapes(result.shape, type(i).shape, joined)) {
      fail("expected shapes that broadcast but got " + to_string(result.shape) + " and " +
           to_string(type(i).shape));
    }
    result.shape = std::move(joined);
  }
  BatchAxis axis(result.shape);
  axis.add(shape, batched);
  for (std::size_t i = 0; i < inputs.size(); ++i) axis.add(type(i));
  result.batched = axis.is_batch();
  if (axis.is_fixed()) fix_batch();
  return result;
}

void Inference::fix_batch() const {
  // Gradient ops follow their forward op, which has spoken already.
  if (graph.phase != ir::Phase::forward || !graph.fixed_batch.empty()) return;
  graph.fixed_batch = std::string(ir::name(op));
  if (graph.layer != ir::kNone) {
    graph.fixed_batch = graph.layers[static_cast<std::size_t>(graph.layer)];
  }
}

Gradient::Gradient(ir::Graph& graph_in, ir::NodeId id, std::vector<ir::ValueId> result_gradients,
                   std::vector<bool> wanted)
    : graph(graph_in),
      node(graph_in.node(id)),
      gradients(node.inputs.size(), ir::kNone),
      result_gradients_(std::move(result_gradients)),
      wanted_(std::move(wanted)) {}

const Definition& definition(ir::Op op) {
  switch (op) {
#define TRAINGRAPH_OP(name, attributes, cpu) \
  case ir::Op::name:                         \
    return name##_definition;
#include "ops.def"
#undef TRAINGRAPH_OP
  }
  throw InternalError("[ops] an op outside the table");
}

ir::NodeId apply(ir::Graph& graph, ir::Op op, ir::Attributes attributes,
                 std::vector<ir::ValueId> inputs) {
  const std::vector<ir::Type> results =
      definition(op).infer(Inference{graph, op, attributes, inputs});
  return graph.add_node(op, std::move(attributes), std::move(inputs), results);
}

ir::ValueId apply1(ir::Graph& graph, ir::Op op, ir::Attributes attributes,
                   std::vector<ir::ValueId> inputs) {
  const ir::NodeId node = apply(graph, op, std::move(attributes), std::move(inputs));
  return graph.node(node).outputs[0];
}

}  // namespace traingraph::ops
