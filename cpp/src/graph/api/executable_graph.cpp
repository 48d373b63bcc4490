// Over 400 lines: the calls of both kinds of executable graphs, which share what they check.
//
// ExecutableGraph, TrainingGraph and InferenceGraph: declarations, compile, link, gradient handles,
// and the calls that submit executions.
#include <traingraph/errors.h>
#include <traingraph/graph.h>

#include <algorithm>

#include "distributed/beginning.h"
#include "graph/api/rank_agreement.h"
#include "graph/lowering/loss_scaling.h"
#include "graph/lowering/optimizer_shards.h"
#include "graph/run/executor.h"
#include "graph/state/graph_state.h"
#include "graph/state/link_set.h"
#include "graph/state/tensor_names.h"
#include "runtime/threads/waiting.h"

namespace traingraph {
namespace {

void add(NamedTensors& to, const NamedTensors& from, const char* what) {
  for (const auto& [name, tensor] : from) {
    if (tensor == nullptr) {
      throw InvalidArgument("[add] expected a tensor for '" + name + "' but got none");
    }
    const TensorPtr* known = find(to, name);
    if (known != nullptr && *known != tensor) {
      throw InvalidArgument(std::string("[add] ") + what + " '" + name +
                            "' already names another tensor");
    }
    if (known == nullptr) to.emplace_back(name, tensor);
  }
}

// Takes the constants' data and returns the constants there were.
std::set<TensorPtr> set_constants(GraphState& state, const NamedTensors& constants,
                                  const NamedData& data) {
  for (const auto& [name, tensor] : constants) {
    if (tensor != nullptr && state.knows(tensor.get())) continue;
    throw InvalidArgument("[compile] expected a tensor of this graph for constant '" + name + "'" +
                          (tensor == nullptr ? "" : " but got '" + tensor->label() + "'"));
  }
  for (const auto& [name, value] : data) {
    const TensorPtr* tensor = find(constants, name);
    if (tensor == nullptr) {
      throw InvalidArgument("[compile] expected data for constants but got '" + name + "'");
    }
    (*tensor)->set_data(value.on_host());
    // The caller's array may change later.
    const TensorDescriptor& d = (*tensor)->descriptor();
    (*tensor)->set_data(
        TensorData::copy_of((*tensor)->data().bytes, d.allocation_bytes(), d.data_type, d.shape));
  }
  std::set<TensorPtr> before;
  std::swap(before, state.constants);
  for (const auto& [name, tensor] : constants) {
    if (tensor->data().bytes == nullptr) {
      state.constants = std::move(before);
      throw InvalidArgument("[compile] expected data for constant '" + name + "' but got none");
    }
    state.constants.insert(tensor);
  }
  return before;
}

// The handle of a tensor's gradient, made at first use.
TensorPtr gradient_handle(GraphState& state, const TensorPtr& of) {
  GradientHandle made{of, nullptr};
  std::shared_ptr<Executor> executor;
  {
    const std::lock_guard lock(structure());
    for (const GradientHandle& known : state.gradient_handles) {
      if (known.of == of) return known.gradient;
    }
    made.gradient = Tensor::create(of->descriptor());
    made.gradient->set_label("gradient of '" + of->label() + "'");
    state.gradient_handles.push_back(made);
    executor = state.executor;
  }
  if (executor != nullptr) executor->read_through(made);
  return made.gradient;
}

}  // namespace

ExecutableGraph::ExecutableGraph(const std::vector<GraphPtr>& graphs, bool training) {
  for (const GraphPtr& graph : graphs) {
    if (graph == nullptr) throw InvalidArgument("[graph] expected a graph object but got none");
  }
  state_->graphs = graphs;
  state_->training = training;
}

void ExecutableGraph::add_inputs(const NamedTensors& inputs, const NamedTensors& loss_labels,
                                 const NamedTensors& loss_label_weights) {
  const std::lock_guard lock(structure());
  add(state_->inputs, inputs, "input");
  add(state_->loss_labels, loss_labels, "loss label");
  add(state_->loss_label_weights, loss_label_weights, "loss label weight");
  for (const auto* declared : {&inputs, &loss_labels, &loss_label_weights}) {
    name_by_declaration(*declared);
  }
  ++state_->changes;
}

void ExecutableGraph::add_outputs(const NamedTensors& outputs) {
  const std::lock_guard lock(structure());
  for (const auto& [name, tensor] : outputs) {
    if (tensor == nullptr || state_->producer(tensor.get()) != nullptr ||
        state_->differentiated(tensor.get()) != nullptr) {
      continue;
    }
    throw InvalidArgument(
        "[add_outputs] expected a tensor that a layer of this graph computes, or "
        "one of its gradient tensors, but got '" +
        tensor->label() + "' for '" + name + "'");
  }
  add(state_->outputs, outputs, "output");
  ++state_->changes;
}

const NamedTensors& ExecutableGraph::inputs() const { return state_->inputs; }
const NamedTensors& ExecutableGraph::loss_labels() const { return state_->loss_labels; }
const NamedTensors& ExecutableGraph::loss_label_weights() const {
  return state_->loss_label_weights;
}
const NamedTensors& ExecutableGraph::outputs() const { return state_->outputs; }

void ExecutableGraph::compile(CompilationOptions options, const Device& device,
                              const NamedTensors& constants, const NamedData& data,
                              Precision precision, std::optional<std::int64_t> memory_limit,
                              const std::optional<distributed::Communicator>& distributed,
                              const distributed::Options& ranks) {
  const auto together = distributed && distributed->size() > 1 ? distributed->ranks() : nullptr;
  if (together != nullptr) together->wait_for_steps();
  const CompilationLock compiling;
  // Of one that is refused, too: ranks go on to count alike.
  const int number = together != nullptr ? together->number_graph() : 0;
  std::set<TensorPtr> constants_before;
  std::shared_ptr<Executor> before, executor;
  std::shared_ptr<GraphState> now;
  const auto take_arguments = [&](GraphState& state) {
    state.options = options;
    state.precision = precision;
    state.memory_limit = memory_limit;
    state.device = device;
    state.ranks = together;
    state.graph_of_ranks = number;
    state.distributed = ranks;
  };
  const auto prepare = [&] {
    if (memory_limit && *memory_limit < 1) {
      throw InvalidArgument("[compile] expected a memory_limit of at least 1 byte but got " +
                            std::to_string(*memory_limit));
    }
    const Backend& backend = backend_named(device.backend(), device.index());
    if (state_->links != nullptr && !has(options, CompilationOptions::kLinkGraphs)) {
      throw InvalidArgument("[compile] expected LINK_GRAPHS among the options of a linked graph");
    }
    {
      const std::lock_guard lock(structure());
      constants_before = set_constants(*state_, constants, data);
      if (precision == Precision::kMixedFloat16) LossScaling::prepare(*state_);
      before = state_->executor;
      now = state_->snapshot();
    }
    take_arguments(*now);
    now->buffer_parts =
        together != nullptr && ranks.shard_optimizer ? parts_over_ranks(together) : nullptr;
    if (together != nullptr) check_may_be_distributed(*now);
    executor = std::make_shared<Executor>(now, backend, before.get());
    executor->prepare(together == nullptr ? before.get() : nullptr, false);
    return std::string();
  };
  try {
    distributed::begin_together(together.get(), "compile", prepare);
  } catch (...) {
    // The graph stays as it was, usable after the mistake is mended.
    const std::lock_guard lock(structure());
    if (now != nullptr) state_->constants = std::move(constants_before);
    throw;
  }
  // Of several ranks only now: where one has refused, the one before goes on.
  if (together != nullptr && before != nullptr) executor->succeed(*before);
  {
    const std::lock_guard lock(structure());
    take_arguments(*state_);
    state_->buffer_parts = now->buffer_parts;
    if (before != nullptr) state_->resumed->set(nullptr);
    state_->resumed->set_taken_at(now->changes);
    state_->executor = std::move(executor);
    state_->compiled_for(device);
  }
  if (together != nullptr) agree_over_ranks(*now, compiled_description(), *state_);
}

Precision ExecutableGraph::precision() const {
  const std::lock_guard lock(structure());
  return state_->precision;
}

std::optional<std::int64_t> ExecutableGraph::memory_limit() const {
  const std::lock_guard lock(structure());
  return state_->memory_limit;
}

void ExecutableGraph::link(const std::vector<std::shared_ptr<ExecutableGraph>>& graphs) {
  const CompilationLock compiling;
  std::vector<std::shared_ptr<GraphState>> states{state_};
  for (const auto& graph : graphs) {
    if (graph == nullptr) throw InvalidArgument("[link] expected a graph but got none");
    if (graph->state_ != state_) states.push_back(graph->state_);
  }
  for (const auto& state : states) {
    const std::lock_guard lock(structure());
    if (state->executor != nullptr && !has(state->options, CompilationOptions::kLinkGraphs)) {
      throw InvalidArgument(
          "[link] expected graphs compiled with LINK_GRAPHS, or not yet compiled");
    }
  }
  if (states.size() > 1) LinkSet::join(states);
}

std::size_t ExecutableGraph::device_memory_size() const {
  const std::shared_ptr<Executor> executor = state_->newest_executor();
  return executor != nullptr ? executor->device_memory_size() : 0;
}

MemoryPlan ExecutableGraph::memory_plan() const {
  return state_->compiled_executor("memory_plan")->memory_plan();
}

std::string ExecutableGraph::compiled_description() const {
  return state_->compiled_executor("compiled_description")->description();
}

TrainingGraph::TrainingGraph(const std::vector<GraphPtr>& graphs, LayerPtr loss_layer,
                             OptimizerPtr optimizer)
    : ExecutableGraph(graphs, true) {
  state_->loss_layer = std::move(loss_layer);
  state_->loss_result = Tensor::create(TensorDescriptor({1}));
  if (state_->loss_layer != nullptr) {
    name_by_place({state_->loss_layer, {}, {state_->loss_result}});
  }
  state_->optimizer = std::move(optimizer);
}

OptimizerPtr TrainingGraph::optimizer() const {
  const std::lock_guard lock(structure());
  return state_->optimizer;
}

void TrainingGraph::compile_optimizer(OptimizerPtr optimizer) {
  if (optimizer == nullptr) {
    throw InvalidArgument("[compile_optimizer] expected an optimizer but got none");
  }
  const std::lock_guard lock(structure());
  state_->optimizer = std::move(optimizer);
  ++state_->changes;
}

void TrainingGraph::stop_gradient(const std::vector<TensorPtr>& tensors) {
  const std::lock_guard lock(structure());
  state_->stopped.insert(tensors.begin(), tensors.end());
  ++state_->changes;
}

TensorPtr TrainingGraph::gradient_tensor(const TensorPtr& input) {
  if (input == nullptr) {
    throw InvalidArgument("[gradient_tensor] expected a tensor but got none");
  }
  std::unique_lock lock(structure());
  if (!state_->knows(input.get())) {
    throw InvalidArgument("[gradient_tensor] expected a tensor of this graph but got '" +
                          input->label() + "'");
  }
  lock.unlock();
  return gradient_handle(*state_, input);
}

std::vector<TensorPtr> TrainingGraph::source_gradient_tensors(const LayerPtr& layer) {
  std::vector<TensorPtr> result;
  for (const TensorPtr& tensor : source_tensors(layer)) {
    result.push_back(gradient_handle(*state_, tensor));
  }
  return result;
}

std::vector<TensorPtr> TrainingGraph::result_gradient_tensors(const LayerPtr& layer) {
  std::vector<TensorPtr> result;
  for (const TensorPtr& tensor : result_tensors(layer)) {
    result.push_back(gradient_handle(*state_, tensor));
  }
  return result;
}

TensorPtr TrainingGraph::allocate_user_gradient(const TensorPtr& tensor) {
  const std::string subject = "[allocate_user_gradient] ";
  const std::lock_guard lock(structure());
  if (tensor == nullptr) throw InvalidArgument(subject + "expected a tensor but got none");
  for (const GradientHandle& known : state_->user_gradients) {
    if (known.of == tensor) return known.gradient;
  }
  if (state_->producer(tensor.get()) == nullptr) {
    throw InvalidArgument(subject +
                          "expected a tensor that a layer of this graph computes but got '" +
                          tensor->label() + "'");
  }
  if (!is_floating_point(tensor->descriptor().data_type)) {
    throw DataTypeError(subject + "expected a floating-point tensor but '" + tensor->label() +
                        "' is " + name(tensor->descriptor().data_type));
  }
  TensorPtr gradient = Tensor::create(tensor->descriptor());
  gradient->set_label("user gradient of '" + tensor->label() + "'");
  state_->user_gradients.push_back({tensor, gradient});
  ++state_->changes;
  return gradient;
}

void TrainingGraph::set_micro_batches(int count) {
  if (count < 1) {
    throw InvalidArgument("[set_micro_batches] expected at least 1 but got " +
                          std::to_string(count));
  }
  const std::lock_guard lock(structure());
  if (count == state_->micro_batches) return;
  state_->micro_batches = count;
  state_->resumed->set(nullptr);
  ++state_->changes;
}

std::optional<double> TrainingGraph::loss_scale() const {
  if (precision() != Precision::kMixedFloat16) return std::nullopt;
  float scale = 0;
  state_->loss_scale->copy_to(&scale, sizeof scale);
  return static_cast<double>(scale);
}

int TrainingGraph::micro_batches() const {
  const std::lock_guard lock(structure());
  return state_->micro_batches;
}

void TrainingGraph::set_training_tensor_parameters(const std::vector<TensorParameter>& parameters) {
  const std::lock_guard lock(structure());
  state_->tensor_parameters = parameters;
  for (const TensorParameter& p : parameters) p.tensor->state().is_trained = true;
  ++state_->changes;
}

void TrainingGraph::train_only(const std::vector<LayerPtr>& layers) {
  const std::lock_guard lock(structure());
  const std::vector<LayerPtr> own = this->layers();
  std::set<TensorPtr> trained;
  for (const LayerPtr& layer : layers) {
    if (layer == nullptr || std::ranges::find(own, layer) == own.end()) {
      throw InvalidArgument("[train_only] expected layers of this graph but got " +
                            (layer == nullptr ? "none" : layer->description()));
    }
    for (const TensorParameter* parameter : layer->parameters()) trained.insert(parameter->tensor);
  }
  if (trained.empty()) {
    throw InvalidArgument("[train_only] expected layers with parameters but got none");
  }
  state_->trained_alone = std::move(trained);
  ++state_->changes;
}

Execution TrainingGraph::execute(const ExecutionArguments& arguments) {
  return state_->current_executor("execute")->submit(Run::step, arguments);
}

Execution TrainingGraph::execute_forward(const ExecutionArguments& arguments) {
  return state_->current_executor("execute_forward")->submit(Run::forward, arguments);
}

Execution TrainingGraph::execute_gradient(const ExecutionArguments& arguments) {
  return state_->current_executor("execute_gradient")->submit(Run::gradient, arguments);
}

Execution TrainingGraph::execute_optimizer_update(const ExecutionArguments& arguments) {
  if (optimizer() == nullptr) {
    throw InvalidArgument(
        "[execute_optimizer_update] expected an optimizer; give one to the "
        "constructor or to compile_optimizer");
  }
  return state_->current_executor("execute_optimizer_update")->submit(Run::update, arguments);
}

void TrainingGraph::synchronize_updates() {
  state_->compiled_executor("synchronize_updates")->synchronize_parameters();
}

bool TrainingGraph::computes_gradient(const LayerPtr& layer) const {
  const std::shared_ptr<Executor> executor = state_->compiled_executor("computes_gradient");
  return layer != nullptr &&
         std::ranges::any_of(layer->parameters(), [&](const TensorParameter* parameter) {
           return executor->computes_gradient(*parameter->tensor);
         });
}

TensorData TrainingGraph::gradient_data(const TensorPtr& parameter, const LayerPtr& layer) const {
  if (parameter == nullptr || layer == nullptr) {
    throw InvalidArgument("[gradient_data] expected a parameter and its layer but got none");
  }
  bool belongs = false;
  for (const TensorParameter* p : layer->parameters()) belongs = belongs || p->tensor == parameter;
  if (!belongs) {
    throw InvalidArgument("[gradient_data] tensor '" + parameter->label() +
                          "' is no parameter of layer " + std::to_string(layer->id()) + " '" +
                          layer->label() + "'");
  }
  return state_->compiled_executor("gradient_data")->gradient(*parameter);
}

InferenceGraph::InferenceGraph(const std::vector<GraphPtr>& graphs)
    : ExecutableGraph(graphs, false) {}

Execution InferenceGraph::execute(const ExecutionArguments& arguments) {
  return state_->current_executor("execute")->submit(Run::forward, arguments);
}

}  // namespace traingraph
