#include <string>

#include <traingraph/errors.h>

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
      if (target.source != Source::parameter) fail(graph, n, "a write to what is no parameter");
      if (target.type.shape != value.type.shape || target.type.data_type != value.type.data_type ||
          !(target.layout == value.layout)) {
        fail(graph, n, "a write of another type");
      }
    }
  }
}

}  // namespace traingraph::ir
