// `Graph`, which adds layers and infers their result shapes, and the functions of `GraphState` that
// walk nodes and find executors.
#include <traingraph/graph.h>

#include <algorithm>
#include <atomic>
#include <set>

#include <traingraph/data_movement.h>
#include <traingraph/errors.h>
#include <traingraph/indexing.h>
#include <traingraph/loss.h>

#include "graph/lowering/floating_type.h"
#include "graph/run/executor.h"
#include "graph/state/graph_state.h"
#include "graph/state/link_set.h"
#include "graph/state/shared_layers_run.h"
#include "graph/state/tensor_names.h"
#include "layers/emitter.h"
#include "runtime/memory/parameter_store.h"
#include "runtime/threads/waiting.h"

namespace traingraph {
namespace {

std::atomic<std::uint64_t> next_graph_number{1};

std::string at(const Layer& layer) {
  return " at layer " + std::to_string(layer.id()) + " '" + layer.label() + "'";
}

}  // namespace

RecursiveMutex& structure() {
  // Never destroyed: the worker may look at a graph while static objects go.
  static auto* const mutex = new RecursiveMutex;
  return *mutex;
}

const TensorPtr* find(const NamedTensors& tensors, const std::string& name) {
  std::size_t next = 0;
  return find_from(next, tensors, name);
}

const TensorPtr* find_from(std::size_t& next, const NamedTensors& tensors,
                           const std::string& name) {
  const auto* found =
      find_from(next, tensors, [&](const auto& entry) { return entry.first == name; });
  return found == nullptr ? nullptr : &found->second;
}

bool names(const NamedTensors& tensors, const Tensor* tensor) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const auto& entry) { return entry.second.get() == tensor; });
}

void check_weights(const Layer& layer, const std::vector<TensorPtr>& sources) {
  const auto* loss = dynamic_cast<const Loss*>(&layer);
  if (loss == nullptr || loss->weights() == nullptr || sources.size() < 3) return;
  if (sources[2] == nullptr || sources[2] == loss->weights()) return;
  throw InvalidArgument(
      "[Loss] expected weights as a source or as the layer's tensor but got both, tensors '" +
      sources[2]->label() + "' and '" + loss->weights()->label() + "'" + at(layer));
}

std::vector<TensorPtr> infer_results(const Layer& layer, const std::vector<TensorPtr>& sources) {
  check_weights(layer, sources);
  check_parameter_types(layer, sources);
  Lowering lowering;
  std::vector<ir::ValueId> values;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i] == nullptr) {
      throw InvalidArgument("[node] expected a tensor but source " + std::to_string(i) +
                            " is none" + at(layer));
    }
    const TensorDescriptor& d = sources[i]->descriptor();
    // The same tensor twice is one value, as it will be in the compiled graph.
    const auto first =
        std::find(sources.begin(), sources.begin() + static_cast<std::ptrdiff_t>(i), sources[i]);
    const auto earlier = static_cast<std::size_t>(first - sources.begin());
    if (earlier < i) {
      values.push_back(values[earlier]);
      continue;
    }
    if (i == 0) lowering.declared_batch = lowering.batch = d.shape[0];
    const ir::ValueId value = lowering.graph.add_source(
        ir::Source::bound, static_cast<int>(i), {d.data_type, d.shape, true}, sources[i]->label());
    if (d.data_type == DataType::kFloat64) lowering.data_type = d.data_type;
    values.push_back(value);
  }
  std::map<ir::ValueId, ir::ValueId> widened;
  Emitter emitter(lowering, layer, read_by(layer, lowering.graph, std::move(values), widened),
                  sources);
  layer.emit(emitter);
  std::vector<TensorPtr> results;
  for (ir::ValueId value : emitter.results) {
    const ir::Type& type = lowering.graph.type(value);
    // A scalar (a loss) is a tensor of one element.
    results.push_back(Tensor::create(
        TensorDescriptor(type.shape.empty() ? Shape{1} : type.shape, type.data_type)));
  }
  if (!emitter.result_lengths.empty()) {
    const ir::Type& type = lowering.graph.type(emitter.results.front());
    results.front() = Tensor::create(
        TensorDescriptor::of_sequences(type.shape, emitter.result_lengths, true, type.data_type));
  }
  return results;
}

void GraphState::compiled_for(const Device& target) {
  const std::lock_guard lock(structure());
  for (const GraphPtr& graph : graphs) graph->state().device = target;
  for (const NodeRecord& node : ordered_nodes()) {
    node.layer->device_type_ = target.actual_type();
    for (const TensorPtr& tensor : node.sources) tensor->state().device = target;
    for (const TensorPtr& tensor : node.results) tensor->state().device = target;
  }
  for (const auto* group : {&inputs, &loss_labels, &loss_label_weights}) {
    for (const auto& [name, tensor] : *group) tensor->state().device = target;
  }
  if (loss_layer != nullptr) loss_layer->device_type_ = target.actual_type();
}

const NodeRecord* GraphState::producer(const Tensor* tensor) const {
  auto search = [&](const GraphState& state) -> const NodeRecord* {
    for (const NodeRecord& node : state.nodes) {
      for (const TensorPtr& result : node.results) {
        if (result.get() == tensor) return &node;
      }
    }
    return nullptr;
  };
  if (const NodeRecord* found = search(*this)) return found;
  for (const GraphPtr& graph : graphs) {
    if (const NodeRecord* found = search(graph->state())) return found;
  }
  return nullptr;
}

std::shared_ptr<Executor> GraphState::newest_executor() const {
  const std::lock_guard lock(structure());
  return executor;
}

std::shared_ptr<Executor> GraphState::compiled_executor(const char* call) const {
  const std::lock_guard lock(structure());
  if (executor == nullptr) {
    throw InvalidArgument(std::string("[") + call +
                          "] expected a compiled graph; call compile first");
  }
  return executor;
}

std::shared_ptr<Executor> GraphState::current_executor(const char* call) {
  const auto current = [&](std::shared_ptr<Executor>& newest) {
    const std::lock_guard lock(structure());
    newest = executor;
    if (newest == nullptr) compiled_executor(call);
    return newest->is_current(all_changes());
  };
  std::shared_ptr<Executor> before;
  if (current(before)) return before;
  const CompilationLock compiling;
  // Another thread may have renewed it meanwhile.
  if (current(before)) return before;
  const std::shared_ptr<GraphState> now = snapshot();
  const Device& target = *now->device;
  auto renewed = std::make_shared<Executor>(now, backend_named(target.backend(), target.index()),
                                            before.get());
  renewed->prepare(before.get(), true);
  const std::lock_guard lock(structure());
  executor = renewed;
  return renewed;
}

std::vector<const TensorParameter*> updatable_parameters(const GraphState& snapshot) {
  if (!snapshot.training) return {};
  std::set<const Layer*> disabled;
  for (const NodeRecord& node : snapshot.nodes) {
    if (node.disable_update) disabled.insert(node.layer.get());
  }
  std::vector<const TensorParameter*> result;
  for (const NodeRecord& node : snapshot.nodes) {
    if (disabled.contains(node.layer.get())) continue;
    for (const TensorParameter* parameter : node.layer->parameters()) {
      if (snapshot.may_train(parameter->tensor)) result.push_back(parameter);
    }
  }
  return result;
}

std::shared_ptr<GraphState> GraphState::snapshot() const {
  const std::lock_guard lock(structure());
  auto now = std::make_shared<GraphState>(*this);
  now->nodes = ordered_nodes();
  now->changes = all_changes();
  for (const TensorParameter* p : updatable_parameters(*now)) {
    now->changes += p->is_updatable.changes();
  }
  now->graphs.clear();
  now->executor = nullptr;
  return now;
}

bool GraphState::reads(const Tensor* tensor) const {
  auto used = [&](const GraphState& state) {
    return std::any_of(state.nodes.begin(), state.nodes.end(), [&](const NodeRecord& node) {
      return std::any_of(node.sources.begin(), node.sources.end(),
                         [&](const TensorPtr& source) { return source.get() == tensor; });
    });
  };
  return used(*this) || std::any_of(graphs.begin(), graphs.end(),
                                    [&](const GraphPtr& graph) { return used(graph->state()); });
}

bool GraphState::knows(const Tensor* tensor) const {
  if (producer(tensor) != nullptr || reads(tensor)) return true;
  for (const NodeRecord& node : ordered_nodes()) {
    for (const TensorParameter* parameter : node.layer->parameters()) {
      if (parameter->tensor.get() == tensor) return true;
    }
  }
  return names(inputs, tensor) || names(loss_labels, tensor) || names(loss_label_weights, tensor);
}

TensorPtr GraphState::differentiated(const Tensor* gradient) const {
  for (const GradientHandle& handle : gradient_handles) {
    if (handle.gradient.get() == gradient) return handle.of;
  }
  return nullptr;
}

std::uint64_t GraphState::all_changes() const {
  auto own = [](const GraphState& state) {
    std::uint64_t sum = state.changes;
    for (const GraphPtr& graph : state.graphs) sum += graph->state().changes;
    return sum;
  };
  if (links == nullptr) return own(*this);
  std::uint64_t sum = 0;
  for (const auto& member : links->states()) sum += own(*member);
  return sum;
}

Graph::Graph() : state_(std::make_shared<GraphState>()) { state_->number = next_graph_number++; }
Graph::~Graph() = default;

TensorPtr Graph::node(const LayerPtr& layer, const TensorPtr& source) {
  return node(layer, std::vector<TensorPtr>{source});
}

TensorPtr Graph::node(const LayerPtr& given, const std::vector<TensorPtr>& sources,
                      bool disable_update) {
  const std::lock_guard lock(structure());
  if (given == nullptr) throw InvalidArgument("[node] expected a layer but got none");
  const SharedLayers::Run* const sharing = state_->sharing;
  const LayerPtr layer = sharing == nullptr ? given : state_->sharing->taken(given);
  const bool may_be_others = sharing != nullptr && !sharing->is_first();
  if (!may_be_others && layer->owner_ != 0 && layer->owner_ != state_->number) {
    throw InvalidArgument("[node] expected a layer of this graph but it belongs to another graph" +
                          at(*layer));
  }
  if (sources.empty()) {
    throw InvalidArgument("[node] expected at least one source but got none" + at(*layer));
  }
  NodeRecord record{layer, sources, {}, disable_update};
  name_by_place(record);  // what is refused is named too
  record.results = infer_results(*layer, sources);
  if (layer->owner_ == 0) layer->owner_ = state_->number;
  name_by_place(state_->nodes.emplace_back(std::move(record)));
  ++state_->changes;
  return state_->nodes.back().results.front();
}

TensorPtr Graph::node(const LayerPtr& layer, const std::vector<TensorPtr>& sources,
                      const std::vector<TensorPtr>& loss_labels) {
  std::vector<TensorPtr> all(sources);
  all.insert(all.end(), loss_labels.begin(), loss_labels.end());
  return node(layer, all);
}

TensorPtr Graph::concatenate(const std::vector<TensorPtr>& sources, std::int64_t dimension) {
  return node(std::make_shared<Concatenation>(dimension), sources);
}

TensorPtr Graph::reshape(Shape shape, const TensorPtr& source) {
  return node(std::make_shared<Reshape>(std::move(shape)), source);
}

TensorPtr Graph::transpose(std::vector<std::int64_t> dimensions, const TensorPtr& source) {
  return node(std::make_shared<Transpose>(std::move(dimensions)), source);
}

std::vector<TensorPtr> Graph::split(const TensorPtr& source, std::int64_t split_count,
                                    std::int64_t dimension) {
  const std::lock_guard lock(structure());
  node(std::make_shared<Split>(split_count, dimension), source);
  return state_->nodes.back().results;
}

std::vector<TensorPtr> Graph::split(const TensorPtr& source, Shape split_section_lengths,
                                    std::int64_t dimension) {
  const std::lock_guard lock(structure());
  node(std::make_shared<Split>(std::move(split_section_lengths), dimension), source);
  return state_->nodes.back().results;
}

TensorPtr Graph::gather(std::int64_t dimension, const TensorPtr& source, const TensorPtr& indices) {
  return node(std::make_shared<Gather>(dimension), {source, indices});
}

TensorPtr Graph::scatter(std::int64_t dimension, const TensorPtr& source, const TensorPtr& indices,
                         const TensorPtr& copy_from, ReductionType reduction_type) {
  return node(std::make_shared<Scatter>(dimension, reduction_type), {source, indices, copy_from});
}

TensorPtr Graph::select(const std::vector<TensorPtr>& sources, const TensorPtr& condition) {
  if (sources.size() != 2) {
    throw InvalidArgument("[select] expected 2 sources, x and y, but got " +
                          std::to_string(sources.size()));
  }
  return node(std::make_shared<Selection>(), {condition, sources[0], sources[1]});
}

std::optional<Device> Graph::device() const {
  const std::lock_guard lock(structure());
  return state_->device;
}

std::vector<LayerPtr> Graph::layers() const {
  const std::lock_guard lock(structure());
  std::vector<LayerPtr> result;
  std::set<const Layer*> known;
  for (const NodeRecord& node : state_->ordered_nodes()) {
    if (known.insert(node.layer.get()).second) result.push_back(node.layer);
  }
  return result;
}

std::vector<TensorPtr> Graph::source_tensors(const LayerPtr& layer) const {
  const std::lock_guard lock(structure());
  std::vector<TensorPtr> result;
  for (const NodeRecord& node : state_->ordered_nodes()) {
    if (node.layer == layer) {
      result.insert(result.end(), node.sources.begin(), node.sources.end());
    }
  }
  return result;
}

std::vector<TensorPtr> Graph::result_tensors(const LayerPtr& layer) const {
  const std::lock_guard lock(structure());
  std::vector<TensorPtr> result;
  for (const NodeRecord& node : state_->ordered_nodes()) {
    if (node.layer == layer) {
      result.insert(result.end(), node.results.begin(), node.results.end());
    }
  }
  return result;
}

void Graph::bind_and_write_data(const NamedData& data, const NamedTensors& tensors,
                                std::int64_t batch_size, bool synchronous) {
  state_->current_executor("bind_and_write_data")->bind(data, tensors, batch_size, synchronous);
}

TensorPtr sequential(Graph& graph, TensorPtr x, const std::vector<LayerPtr>& layers) {
  for (const LayerPtr& layer : layers) x = graph.node(layer, x);
  return x;
}

}  // namespace traingraph
