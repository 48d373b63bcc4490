#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <traingraph/graph.h>

namespace traingraph {

class Executor;

// One use of a layer.
struct NodeRecord {
  LayerPtr layer;
  std::vector<TensorPtr> sources;
  std::vector<TensorPtr> results;
  bool disable_update = false;
};

// Everything behind a graph's handle. What only executable graphs have stands below.
struct GraphState {
  std::uint64_t number = 0;  // unique in the process, from 1
  std::vector<NodeRecord> nodes;

  bool training = false;
  std::vector<GraphPtr> graphs;
  LayerPtr loss_layer;
  TensorPtr loss_result;  // of loss_layer
  OptimizerPtr optimizer;
  NamedTensors inputs;
  NamedTensors loss_labels;
  NamedTensors loss_label_weights;
  NamedTensors outputs;
  std::set<TensorPtr> stopped;
  std::vector<TensorParameter> tensor_parameters;
  CompilationOptions options = CompilationOptions::kNone;
  std::optional<Device> device;
  std::shared_ptr<Executor> executor;
  // Counts what changes the meaning of compiled programs: nodes, declarations, the optimizer.
  std::uint64_t changes = 0;

  // Own changes and those of the graph objects.
  std::uint64_t all_changes() const;

  // Own nodes and those of the graph objects, so that every source is computed before its reader.
  std::vector<NodeRecord> ordered_nodes() const;
  // Tells layers and graph objects where they run.
  void compiled_for(const Device& target);
  // By tensor identity; null when no node of this graph computes it.
  const NodeRecord* producer(const Tensor* tensor) const;
};

// A NamedTensors entry by name; null without one.
const TensorPtr* find(const NamedTensors& tensors, const std::string& name);

// The graph's programs, compiled again if something was added since compile; what was bound stays.
// Raises InvalidArgument naming the call before the first compile.
Executor& current_executor(GraphState& state, const char* call);

// What Graph::node does: shape rules run on a scratch lowering, so that mistakes show at once.
std::vector<TensorPtr> infer_results(const Layer& layer, const std::vector<TensorPtr>& sources);

}  // namespace traingraph
