// Construction of the graph IR: sources, nodes and results, each checked for extents whose bytes
// can be counted.
#include "ir/graph.h"

#include <algorithm>

#include <traingraph/errors.h>

#include "ir/extents.h"

namespace traingraph::ir {
namespace {

constexpr const char* kOpNames[] = {
#define TRAINGRAPH_OP(name, attributes, cpu) #name,
#include "ops.def"
#undef TRAINGRAPH_OP
};
constexpr const char* kPhaseNames[] = {"forward", "gradient", "update"};
constexpr const char* kStepInputNames[kStepInputCount] = {
    "learning_rate", "corrected_learning_rate",
    "counter",       "own_counter",
    "accumulates",   "first_row",
    "rows",          "row_share",
    "rank_rows",     "all_rows",
    "mean_share",    "sum_share",
    "rank"};

// Each value passes here, so that no pass or kernel meets extents of which the bytes are no number.
void expect_possible(const Graph& graph, const Type& type, const std::string& what) {
  if (can_be(type.shape, type.data_type)) return;
  throw ShapeError("[" + what + "] expected a tensor of at most " + std::to_string(kMostBytes) +
                   " bytes but got " + to_string(type) + where(graph, graph.layer));
}

}  // namespace

const char* name(Op op) { return kOpNames[static_cast<std::size_t>(op)]; }
const char* name(Phase phase) { return kPhaseNames[static_cast<std::size_t>(phase)]; }
const char* name(StepInput input) { return kStepInputNames[static_cast<std::size_t>(input)]; }

ValueId Graph::add_source(Source source, int slot, Type type, std::string name) {
  expect_possible(*this, type, name);
  Value value;
  value.type = std::move(type);
  value.source = source;
  value.slot = slot;
  value.name = std::move(name);
  values.push_back(std::move(value));
  return static_cast<ValueId>(values.size()) - 1;
}

NodeId Graph::add_node(Op op, Attributes attributes, std::vector<ValueId> inputs,
                       const std::vector<Type>& results) {
  for (const Type& type : results) expect_possible(*this, type, ir::name(op));
  Node node;
  node.op = op;
  node.attributes = std::move(attributes);
  node.inputs = std::move(inputs);
  node.phase = phase;
  node.layer = layer;
  const NodeId id = static_cast<NodeId>(nodes.size());
  nodes.push_back(std::move(node));
  for (const Type& type : results) add_result(id, type);
  return id;
}

ValueId Graph::add_result(NodeId id, Type type) {
  Value value;
  value.type = std::move(type);
  value.producer = id;
  values.push_back(std::move(value));
  const auto result = static_cast<ValueId>(values.size()) - 1;
  node(id).outputs.push_back(result);
  return result;
}

NodeId Graph::append(Node node) {
  const NodeId id = static_cast<NodeId>(nodes.size());
  for (ValueId output : node.outputs) value(output).producer = id;
  nodes.push_back(std::move(node));
  return id;
}

DataType joint_type(const Graph& graph, const std::vector<ValueId>& inputs) {
  DataType joint = inputs.empty() ? DataType::kFloat32 : graph.type(inputs[0]).data_type;
  for (ValueId input : inputs) {
    const DataType type = graph.type(input).data_type;
    if (type == joint || joint == DataType::kFloat64) continue;
    joint = type == DataType::kFloat64 ? type : DataType::kFloat32;
  }
  return joint;
}

std::vector<std::vector<NodeId>> consumers(const Graph& graph) {
  std::vector<std::vector<NodeId>> result(graph.values.size());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (ValueId input : graph.nodes[n].inputs) {
      auto& list = result[static_cast<std::size_t>(input)];
      if (list.empty() || list.back() != static_cast<NodeId>(n)) {
        list.push_back(static_cast<NodeId>(n));
      }
    }
  }
  return result;
}

namespace {

// Appends a node to the order behind those that it reads, which may have stood later.
void place(const Graph& graph, NodeId id, std::vector<bool>& placed, std::vector<NodeId>& order) {
  std::vector<std::pair<NodeId, std::size_t>> open;  // and how many of its inputs are placed
  const auto begin = [&](NodeId node) {
    if (node == kNone || placed[static_cast<std::size_t>(node)]) return;
    placed[static_cast<std::size_t>(node)] = true;
    open.emplace_back(node, 0);
  };
  begin(id);
  while (!open.empty()) {
    const auto [node, inputs] = open.back();
    if (inputs == graph.node(node).inputs.size()) {
      order.push_back(node);
      open.pop_back();
      continue;
    }
    ++open.back().second;
    begin(graph.value(graph.node(node).inputs[inputs]).producer);
  }
}

}  // namespace

Graph without_nodes(const Graph& graph, const std::vector<bool>& gone) {
  std::vector<NodeId> order;
  std::vector<bool> placed(graph.nodes.size(), false);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!gone[n]) place(graph, static_cast<NodeId>(n), placed, order);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](NodeId a, NodeId b) { return graph.node(a).phase < graph.node(b).phase; });
  Graph result;
  result.layers = graph.layers;
  result.values = graph.values;
  for (NodeId id : order) result.append(graph.node(id));
  return result;
}

std::string where(const Graph& graph, int layer) {
  if (layer == kNone) return "";
  return " at " + graph.layers[static_cast<std::size_t>(layer)];
}

std::string where(const Graph& graph, const Node& node) { return where(graph, node.layer); }

}  // namespace traingraph::ir
