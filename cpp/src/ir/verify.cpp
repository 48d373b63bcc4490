// The verifier of the graph IR: order, types, attributes, and writes to parameters.
#include <string>

#include <traingraph/errors.h>

#include "ir/cast.h"
#include "ir/graph.h"

namespace traingraph::ir {
namespace {

[[noreturn]] void fail(const Graph& graph, std::size_t node, const std::string& what) {
  throw InternalError("[verify] " + what + " in node " + std::to_string(node) + " " +
                      name(graph.nodes[node].op) + where(graph, graph.nodes[node]));
}

bool attributes_match(const Node& node) {
  switch (node.op) {
#define TRAINGRAPH_OP(name, attributes_type, cpu) \
  case Op::name:                                  \
    return std::holds_alternative<attributes_type>(node.attributes);
#include "ops.def"
#undef TRAINGRAPH_OP
  }
  return false;
}

// Types of an elementwise op's results, as it says them; float64 mixes with nothing but in a cast.
void verify_types(const Graph& graph, std::size_t n) {
  const Node& node = graph.nodes[n];
  const auto& a = std::get<ElementwiseAttributes>(node.attributes);
  if (!a.result_types.empty() && a.result_types.size() != node.outputs.size()) {
    fail(graph, n, "result types for another number of results");
  }
  // What has no inputs takes the type its value was given.
  if (node.inputs.empty() && a.result_types.empty()) return;
  const DataType joint = joint_type(graph, node.inputs);
  bool mixed = false;
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    const DataType type = graph.type(node.outputs[k]).data_type;
    const DataType stated = a.result_types.empty() ? joint : a.result_types[k];
    if (type != stated) fail(graph, n, "a result of another type than stated");
    mixed = mixed || ((type == DataType::kFloat64) != (joint == DataType::kFloat64));
  }
  for (ValueId input : node.inputs) {
    mixed = mixed || (joint == DataType::kFloat64 && graph.type(input).data_type != joint);
  }
  if (mixed && !node.inputs.empty() && !is_cast(a)) fail(graph, n, "float64 mixed with others");
}

}  // namespace

void verify(const Graph& graph) {
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!attributes_match(node)) fail(graph, n, "attributes of another op");
    for (ValueId input : node.inputs) {
      if (input < 0 || input >= static_cast<ValueId>(graph.values.size())) {
        fail(graph, n, "an input that does not exist");
      }
      const Value& value = graph.value(input);
      if (value.source == Source::node && value.producer >= static_cast<NodeId>(n)) {
        fail(graph, n, "an input computed later");
      }
      if (value.source == Source::node && graph.node(value.producer).phase > node.phase) {
        fail(graph, n, "an input of a later phase");
      }
    }
    if (node.op == Op::elementwise) verify_types(graph, n);
    for (ValueId output : node.outputs) {
      const Value& value = graph.value(output);
      if (value.source != Source::node || value.producer != static_cast<NodeId>(n)) {
        fail(graph, n, "an output with another producer");
      }
      for (std::int64_t extent : value.type.shape) {
        if (extent < 1) fail(graph, n, "a result without elements");
      }
      if (value.writes == kNone) continue;
      const Value& target = graph.value(value.writes);
      if (node.op == Op::reshape) fail(graph, n, "a write by a view");
      if (target.source != Source::parameter) fail(graph, n, "a write to what is no parameter");
      if (target.type.shape != value.type.shape || target.type.data_type != value.type.data_type ||
          !(target.layout == value.layout)) {
        fail(graph, n, "a write of another type");
      }
    }
  }
}

}  // namespace traingraph::ir
