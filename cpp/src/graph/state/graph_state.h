// `GraphState`, the data behind a public graph: nodes, declarations, gradient handles, links and
// executor.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <traingraph/graph.h>
#include <traingraph/mutex.h>
#include <traingraph/shared_layers.h>

#include "distributed/ranks.h"
#include "graph/state/begun_step.h"
#include "graph/state/fit_place.h"
#include "runtime/numbers/random.h"

namespace traingraph {

class Executor;
struct BufferParts;
struct LinkSet;

// One use of a layer.
struct NodeRecord {
  LayerPtr layer;
  std::vector<TensorPtr> sources;
  std::vector<TensorPtr> results;
  bool disable_update = false;
};

struct GradientHandle {
  TensorPtr of;
  TensorPtr gradient;
};

// Guards what graphs consist of, and their executors: of all graphs, for they share graph objects
// and links. Held for a moment, by nobody who compiles, runs or waits.
RecursiveMutex& structure();

// What only executable graphs have stands below.
struct GraphState {
  std::uint64_t number = 0;  // unique in the process, from 1
  std::vector<NodeRecord> nodes;
  SharedLayers::Run* sharing = nullptr;  // asked by node() for the layer to add; null: none

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
  // Handles of gradients that were asked for, and slots for gradients made outside.
  std::vector<GradientHandle> gradient_handles;
  std::vector<GradientHandle> user_gradients;
  std::vector<TensorParameter> tensor_parameters;
  std::optional<std::set<TensorPtr>> trained_alone;  // layers' parameters; none: all are trained
  std::set<TensorPtr> constants;                     // of the last compile
  std::shared_ptr<LinkSet> links;                    // null: linked with nothing
  int micro_batches = 1;                             // executions that make one step
  std::shared_ptr<distributed::Ranks> ranks;         // that train together; null: one alone
  int graph_of_ranks = 0;                            // by which they tell their graphs apart
  distributed::Options distributed;                  // how they do
  std::shared_ptr<const BufferParts> buffer_parts;   // of the optimizer; null: each has the whole
  bool is_attended = false;  // rank 0 is alone, and the others wait for its calls (attendance.h)
  std::shared_ptr<LoadedStep> resumed = std::make_shared<LoadedStep>();
  std::shared_ptr<KeptFitPlace> fit_place = std::make_shared<KeptFitPlace>();
  CompilationOptions options = CompilationOptions::kNone;
  Precision precision = Precision::kFloat32;
  std::optional<std::int64_t> memory_limit;  // in bytes
  // Of a training graph in kMixedFloat16, from its first compile on; else null.
  TensorPtr loss_scale;
  TensorPtr good_steps;  // since the scale has changed
  std::optional<Device> device;
  std::shared_ptr<Executor> executor;
  // What random numbers follow from: taken from the platform when the graph is made.
  std::uint64_t random_seed = current_random_seed();
  // Forward passes so far; changed by whoever holds the stream, which may outlive the graph.
  std::shared_ptr<std::atomic<std::int64_t>> forward_count =
      std::make_shared<std::atomic<std::int64_t>>(0);
  // Counts what changes the meaning of compiled programs: nodes, declarations, the optimizer.
  std::uint64_t changes = 0;

  // Own changes and those of the graph objects and of linked graphs.
  std::uint64_t all_changes() const;

  // Own nodes and those of the graph objects, so that every source is computed before its reader.
  std::vector<NodeRecord> ordered_nodes() const;
  // Tells layers, tensors and graph objects where they run.
  void compiled_for(const Device& target);
  // By tensor identity; null when no node of this graph computes it.
  const NodeRecord* producer(const Tensor* tensor) const;
  // Raises InvalidArgument naming the call before the first compile.
  std::shared_ptr<Executor> compiled_executor(const char* call) const;
  // The same, after compiling again if something was added since.
  std::shared_ptr<Executor> current_executor(const char* call);
  // Null before the first compile.
  std::shared_ptr<Executor> newest_executor() const;
  // The graph as it is now, which an executor is made for: with the nodes of its graph objects
  // among its own, and all changes among its own, those of is_updatable included.
  std::shared_ptr<GraphState> snapshot() const;
  // Whether a node reads or computes it, or it is declared, or a layer's parameter.
  bool knows(const Tensor* tensor) const;
  // Whether a node reads it.
  bool reads(const Tensor* tensor) const;
  // Whether train_only() allows for it.
  bool may_train(const TensorPtr& parameter) const {
    return !trained_alone || trained_alone->contains(parameter);
  }
  // What a gradient handle is the gradient of; null for other tensors.
  TensorPtr differentiated(const Tensor* gradient) const;
};

// Parameters of a snapshot whose flags decide what its programs train.
std::vector<const TensorParameter*> updatable_parameters(const GraphState& snapshot);

// The first element, counted from `next` and on from the beginning, of which this is true; null
// without one. What is asked for in the order of the elements is found at once.
template <typename Elements, typename Is>
auto find_from(std::size_t& next, Elements& elements, Is is) -> decltype(elements.data()) {
  for (std::size_t passed = 0; passed < elements.size(); ++passed) {
    const std::size_t at = next < elements.size() ? next : 0;
    next = at + 1;
    if (is(elements[at])) return &elements[at];
  }
  return nullptr;
}

// A NamedTensors entry by name; null without one.
const TensorPtr* find(const NamedTensors& tensors, const std::string& name);
const TensorPtr* find_from(std::size_t& next, const NamedTensors& tensors, const std::string& name);
// Whether a tensor has a name there.
bool names(const NamedTensors& tensors, const Tensor* tensor);

// Raises InvalidArgument where a loss has weights of its own and reads others.
void check_weights(const Layer& layer, const std::vector<TensorPtr>& sources);

// What Graph::node does: shape rules run on a scratch lowering, so that mistakes show at once.
std::vector<TensorPtr> infer_results(const Layer& layer, const std::vector<TensorPtr>& sources);

}  // namespace traingraph
