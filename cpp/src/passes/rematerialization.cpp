// Rematerialization: copies of ops by which the gradient pass computes forward values again instead
// of keeping them.
#include <algorithm>
#include <map>
#include <utility>

#include <traingraph/errors.h>

#include "passes/passes.h"

namespace traingraph::passes {
namespace {

using ir::kNone;
using ir::NodeId;
using ir::ValueId;

// A copy of an op, before the op of this number and the copies that stand there already.
struct Copy {
  ir::Node node;
  NodeId origin;
  NodeId before;
};

bool reads(const ir::Node& node, ValueId value) {
  return std::find(node.inputs.begin(), node.inputs.end(), value) != node.inputs.end();
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

class Copies {
 public:
  Copies(const ir::Graph& graph, const Backend& backend)
      : graph_(graph),
        backend_(backend),
        result_(graph),
        readers_(ir::consumers(graph)),
        before_(graph.nodes.size()) {}

  // Places a copy of the producer of a value that has none so far, and lets the gradient phase read
  // the copy's result.
  void add(ValueId value) {
    std::vector<ir::Node*> readers;
    NodeId first = kNone;
    for (NodeId id : readers_[static_cast<std::size_t>(value)]) {
      if (graph_.node(id).phase != ir::Phase::gradient) continue;
      readers.push_back(&changed(id));
      if (first == kNone) first = id;
    }
    for (std::size_t k : copies_that_read_[value]) {
      readers.push_back(&copies_[k].node);
      if (first == kNone || copies_[k].before < first) first = copies_[k].before;
    }
    const NodeId producer = graph_.value(value).producer;
    if (first == kNone || producer == kNone || producer >= first) {
      throw InternalError(
          "[rematerialization] expected a value of an op that the gradient phase reads");
    }
    Copy copy{now(producer), producer, first};
    copy.node.phase = ir::Phase::gradient;
    if (copy.node.op == ir::Op::batch_norm) {
      hand_coefficients(result_, backend_, changed(producer), copy.node);
    }
    ValueId again = kNone;
    for (ValueId& output : copy.node.outputs) {
      const bool wanted = output == value;
      output = copy_of(result_, output);
      if (wanted) again = output;
    }
    std::vector<std::size_t>& there = before_[static_cast<std::size_t>(first)];
    const auto place = std::find_if(there.begin(), there.end(),
                                    [&](std::size_t k) { return reads(copies_[k].node, value); });
    there.insert(place, copies_.size());
    for (ir::Node* reader : readers) {
      std::replace(reader->inputs.begin(), reader->inputs.end(), value, again);
    }
    for (ValueId input : copy.node.inputs) copies_that_read_[input].push_back(copies_.size());
    copies_.push_back(std::move(copy));
  }

  ir::Graph take(std::vector<NodeId>& origins) {
    std::vector<ir::Node> nodes = std::exchange(result_.nodes, {});
    origins.clear();
    for (auto& [id, node] : changed_) nodes[static_cast<std::size_t>(id)] = std::move(node);
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      for (std::size_t k : before_[n]) {
        result_.append(std::move(copies_[k].node));
        origins.push_back(copies_[k].origin);
      }
      result_.append(std::move(nodes[n]));
      origins.push_back(static_cast<NodeId>(n));
    }
    return std::move(result_);
  }

 private:
  const ir::Node& now(NodeId id) const {
    const auto found = changed_.find(id);
    return found == changed_.end() ? graph_.node(id) : found->second;
  }
  ir::Node& changed(NodeId id) { return changed_.try_emplace(id, graph_.node(id)).first->second; }

  const ir::Graph& graph_;
  const Backend& backend_;
  ir::Graph result_;  // with the nodes as they were, until all copies are there
  std::map<NodeId, ir::Node> changed_;
  const std::vector<std::vector<NodeId>> readers_;  // by value, of the nodes
  std::vector<Copy> copies_;
  std::vector<std::vector<std::size_t>> before_;  // by node: copies, in order
  std::map<ValueId, std::vector<std::size_t>> copies_that_read_;
};

}  // namespace

ir::Graph with_rematerialized(const ir::Graph& graph, const Backend& backend,
                              std::vector<Rematerialized> values, std::vector<NodeId>& origins) {
  // Later values first: a copy that reads an earlier one is then among its readers.
  std::sort(values.begin(), values.end(), [&](const Rematerialized& a, const Rematerialized& b) {
    return graph.value(a.value).producer > graph.value(b.value).producer;
  });
  Copies copies(graph, backend);
  for (const Rematerialized& one : values) copies.add(one.value);
  return copies.take(origins);
}

}  // namespace traingraph::passes
