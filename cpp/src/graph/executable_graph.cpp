#include <traingraph/errors.h>
#include <traingraph/graph.h>

#include "graph/executor.h"
#include "graph/graph_state.h"

namespace traingraph {
namespace {

Executor& compiled(const GraphState& state, const char* call) {
  if (state.executor == nullptr) {
    throw InvalidArgument(std::string("[") + call +
                          "] expected a compiled graph; call compile first");
  }
  return *state.executor;
}

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

}  // namespace

Executor& current_executor(GraphState& state, const char* call) {
  Executor& executor = compiled(state, call);
  if (executor.built_for() != state.all_changes()) {
    auto renewed = std::make_shared<Executor>(state, backend_named(state.device->backend()));
    renewed->prepare();
    renewed->take_data(executor);
    state.executor = std::move(renewed);
  }
  return *state.executor;
}

ExecutableGraph::ExecutableGraph(const std::vector<GraphPtr>& graphs, bool training) {
  for (const GraphPtr& graph : graphs) {
    if (graph == nullptr) throw InvalidArgument("[graph] expected a graph object but got none");
  }
  state_->graphs = graphs;
  state_->training = training;
}

void ExecutableGraph::add_inputs(const NamedTensors& inputs, const NamedTensors& loss_labels,
                                 const NamedTensors& loss_label_weights) {
  add(state_->inputs, inputs, "input");
  add(state_->loss_labels, loss_labels, "loss label");
  add(state_->loss_label_weights, loss_label_weights, "loss label weight");
  ++state_->changes;
}

void ExecutableGraph::add_outputs(const NamedTensors& outputs) {
  for (const auto& [name, tensor] : outputs) {
    if (tensor != nullptr && state_->producer(tensor.get()) == nullptr) {
      throw InvalidArgument(
          "[add_outputs] expected a tensor that a layer of this graph computes "
          "but got '" +
          tensor->label() + "' for '" + name + "'");
    }
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

void ExecutableGraph::compile(CompilationOptions options, const Device& device) {
  const Backend& backend = backend_named(device.backend());
  const std::optional<Device> device_before = state_->device;
  const CompilationOptions options_before = state_->options;
  state_->options = options;
  state_->device = device;
  auto executor = std::make_shared<Executor>(*state_, backend);
  try {
    executor->prepare();
  } catch (...) {
    // The graph stays as it was, usable after the mistake is mended.
    state_->device = device_before;
    state_->options = options_before;
    throw;
  }
  // Staged data lies in the device's memory.
  if (state_->executor != nullptr && device_before == device)
    executor->take_data(*state_->executor);
  state_->executor = std::move(executor);
  state_->compiled_for(device);
}

std::size_t ExecutableGraph::device_memory_size() const {
  return state_->executor != nullptr ? state_->executor->device_memory_size() : 0;
}

MemoryPlan ExecutableGraph::memory_plan() const {
  return compiled(*state_, "memory_plan").memory_plan();
}

std::string ExecutableGraph::compiled_description() const {
  return compiled(*state_, "compiled_description").description();
}

TrainingGraph::TrainingGraph(const std::vector<GraphPtr>& graphs, LayerPtr loss_layer,
                             OptimizerPtr optimizer)
    : ExecutableGraph(graphs, true) {
  state_->loss_layer = std::move(loss_layer);
  state_->loss_result = Tensor::create(TensorDescriptor({1}));
  state_->optimizer = std::move(optimizer);
}

OptimizerPtr TrainingGraph::optimizer() const { return state_->optimizer; }

void TrainingGraph::compile_optimizer(OptimizerPtr optimizer) {
  if (optimizer == nullptr) {
    throw InvalidArgument("[compile_optimizer] expected an optimizer but got none");
  }
  state_->optimizer = std::move(optimizer);
  ++state_->changes;
}

void TrainingGraph::stop_gradient(const std::vector<TensorPtr>& tensors) {
  state_->stopped.insert(tensors.begin(), tensors.end());
  ++state_->changes;
}

void TrainingGraph::set_training_tensor_parameters(const std::vector<TensorParameter>& parameters) {
  state_->tensor_parameters = parameters;
  ++state_->changes;
}

Execution TrainingGraph::execute(ExecutionArguments arguments) {
  return current_executor(*state_, "execute").submit(Run::step, arguments);
}

Execution TrainingGraph::execute_forward(ExecutionArguments arguments) {
  return current_executor(*state_, "execute_forward").submit(Run::forward, arguments);
}

Execution TrainingGraph::execute_gradient(ExecutionArguments arguments) {
  return current_executor(*state_, "execute_gradient").submit(Run::gradient, arguments);
}

Execution TrainingGraph::execute_optimizer_update(ExecutionArguments arguments) {
  if (state_->optimizer == nullptr) {
    throw InvalidArgument(
        "[execute_optimizer_update] expected an optimizer; give one to the "
        "constructor or to compile_optimizer");
  }
  return current_executor(*state_, "execute_optimizer_update").submit(Run::update, arguments);
}

void TrainingGraph::synchronize_updates() {
  compiled(*state_, "synchronize_updates").synchronize_parameters();
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
  return compiled(*state_, "gradient_data").gradient(*parameter);
}

InferenceGraph::InferenceGraph(const std::vector<GraphPtr>& graphs)
    : ExecutableGraph(graphs, false) {}

Execution InferenceGraph::execute(ExecutionArguments arguments) {
  return current_executor(*state_, "execute").submit(Run::forward, arguments);
}

}  // namespace traingraph
