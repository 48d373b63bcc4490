// Rematerialization: copies of ops by which the gradient pass computes forward values again instead
// of keeping them.
#include <algorithm>

#include <traingraph/errors.h>

#include "passes/passes.h"

namespace traingraph::passes {
namespace {

using ir::kNone;
using ir::NodeId;
using ir::ValueId;

struct Placed {
  ir::Node node;
  NodeId origin;
};

bool reads_in_gradient(const Placed& placed, ValueId value) {
  const std::vector<ValueId>& inputs = placed.node.inputs;
  return placed.node.phase == ir::Phase::gradient &&
         std::find(inputs.begin(), inputs.end(), value) != inputs.end();
}

// A result of the same type and layout that nobody outside the graph reads.
ValueId copy_of(ir::Graph& graph, ValueId value) {
  ir::Value copy = graph.value(value);
  copy.writes = kNone;
  copy.keep = false;
  graph.values.push_back(std::move(copy));
  return static_cast<ValueId>(graph.values.size()) - 1;
}

// Lets a batch norm hand its coefficients to a copy of it, which then need not find the statistics
// again: where the backend has kernels for both.
void hand_coefficients(ir::Graph& graph, const Backend& backend, ir::Node& producer,
                       ir::Node& copy) {
  const ir::Type& mean = graph.type(producer.outputs[1]);
  ir::Value coefficients;
  coefficients.type = {mean.data_type, {mean.shape[0], 4}, false};
  const auto number = static_cast<ValueId>(graph.values.size());
  ir::Node gives = producer, takes = copy;
  std::get<ir::BatchNormAttributes>(gives.attributes).coefficients = ir::Coefficients::result;
  std::get<ir::BatchNormAttributes>(takes.attributes).coefficients = ir::Coefficients::given;
  gives.outputs.push_back(number);
  takes.inputs.push_back(number);
  std::get<ir::BatchNormAttributes>(takes.attributes).has_relu_mask = false;
  takes.outputs.resize(1);
  graph.values.push_back(std::move(coefficients));
  if (backend.supports(graph, gives).yes && backend.supports(graph, takes).yes) {
    producer = std::move(gives);
    copy = std::move(takes);
  } else {
    graph.values.pop_back();
  }
}

// Places a copy of the producer of a value that has none so far, and lets the gradient phase read
// the copy's result.
void rematerialize(ir::Graph& graph, const Backend& backend, std::vector<Placed>& placed,
                   ValueId value) {
  const auto first = std::find_if(placed.begin(), placed.end(), [&](const Placed& reader) {
    return reads_in_gradient(reader, value);
  });
  const auto producer = std::find_if(placed.begin(), first, [&](const Placed& other) {
    const std::vector<ValueId>& outputs = other.node.outputs;
    return std::find(outputs.begin(), outputs.end(), value) != outputs.end();
  });
  if (first == placed.end() || producer == first) {
    throw InternalError(
        "[rematerialization] expected a value of an op that the gradient phase reads");
  }
  Placed copy = *producer;
  copy.node.phase = ir::Phase::gradient;
  if (copy.node.op == ir::Op::batch_norm) {
    hand_coefficients(graph, backend, producer->node, copy.node);
  }
  ValueId again = kNone;
  for (ValueId& output : copy.node.outputs) {
    const bool wanted = output == value;
    output = copy_of(graph, output);
    if (wanted) again = output;
  }
  for (auto reader = first; reader != placed.end(); ++reader) {
    if (!reads_in_gradient(*reader, value)) continue;
    std::replace(reader->node.inputs.begin(), reader->node.inputs.end(), value, again);
  }
  placed.insert(first, std::move(copy));
}

}  // namespace

ir::Graph with_rematerialized(const ir::Graph& graph, const Backend& backend,
                              std::vector<Rematerialized> values, std::vector<NodeId>& origins) {
  ir::Graph result = graph;
  std::vector<Placed> placed;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    placed.push_back({graph.nodes[n], static_cast<NodeId>(n)});
  }
  // Later values first: a copy that reads an earlier one is then among its readers.
  std::sort(values.begin(), values.end(), [&](const Rematerialized& a, const Rematerialized& b) {
    return graph.value(a.value).producer > graph.value(b.value).producer;
  });
  for (const Rematerialized& one : values) rematerialize(result, backend, placed, one.value);
  result.nodes.clear();
  origins.clear();
  for (Placed& one : placed) {
    result.append(std::move(one.node));
    origins.push_back(one.origin);
  }
  return result;
}

}  // namespace traingraph::passes
