// What a checkpoint holds, under which names, and how a graph takes it back.
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string_view>

#include <traingraph/device.h>
#include <traingraph/errors.h>
#include <traingraph/graph.h>

#include "graph/executor.h"
#include "graph/graph_state.h"
#include "graph/loss_scaling.h"
#include "graph/lowering.h"
#include "graph/safetensors.h"
#include "runtime/parameter_store.h"

namespace traingraph {
namespace {

constexpr std::string_view kOptimizer = "optimizer.";
constexpr std::string_view kState = "state.";
constexpr const char* kTimeStep = "state.time_step";
constexpr const char* kForwardCount = "state.forward_count";
constexpr const char* kRandomSeed = "state.random_seed";
// Of mixed_float16; a checkpoint of another precision is none the worse without them.
constexpr const char* kLossScale = "state.loss_scale";
constexpr const char* kGoodSteps = "state.good_steps";

// Of one graph: its parameters, and for a training graph what its optimizer and its random numbers
// continue from.
struct Contents {
  NamedTensors parameters;
  NamedTensors scaling;            // the loss scale, and the steps since it has changed
  NamedTensors updated;            // those with optimizer buffers
  std::vector<std::string> slots;  // names of the buffers of each
  std::vector<std::string> numbers;
};

// The label, or what is left of a default one, which counts the process's tensors.
std::string label_of(const Tensor& tensor) {
  return tensor.label() == "data" + std::to_string(tensor.id()) ? "data" : tensor.label();
}

NamedTensors parameters_of(const GraphState& state) {
  NamedTensors result;
  std::set<const Tensor*> seen;
  std::set<const Layer*> layers;
  for (const NodeRecord& node : state.ordered_nodes()) {
    if (!layers.insert(node.layer.get()).second) continue;
    const std::string prefix = std::to_string(layers.size()) + "." + node.layer->label() + ".";
    for (const auto& [name, tensor] : node.layer->named_parameters()) {
      if (tensor != nullptr && seen.insert(tensor.get()).second) {
        result.emplace_back(prefix + name, tensor);
      }
    }
    for (const TensorParameter* parameter : node.layer->parameters()) {
      if (seen.contains(parameter->tensor.get())) continue;
      throw InternalError("[" + node.layer->description() + "] has a parameter '" +
                          parameter->tensor->label() + "' that it does not name");
    }
  }
  std::set<std::string> names;
  for (const TensorParameter& parameter : state.tensor_parameters) {
    if (!seen.insert(parameter.tensor.get()).second) continue;
    const std::string base = "tensor." + label_of(*parameter.tensor);
    std::string name = base;
    for (int k = 2; !names.insert(name).second; ++k) name = base + "." + std::to_string(k);
    result.emplace_back(name, parameter.tensor);
  }
  return result;
}

// Which parameters an update changes follows from the gradient, so the graph is written as ops.
NamedTensors updated_among(const NamedTensors& parameters, const GraphState& state) {
  if (state.loss_layer != nullptr && state.loss_labels.empty()) {
    throw InvalidArgument(
        "[checkpoint] expected loss labels declared by add_inputs but got none: without a loss "
        "there is no optimizer state");
  }
  std::set<const Tensor*> updated;
  for (const LoweredGraph::Slot& slot : lower(state, 0, Mode::training).slots) {
    if (!slot.buffer.empty()) updated.insert(slot.tensor.get());
  }
  NamedTensors result;
  for (const auto& [name, tensor] : parameters) {
    if (updated.contains(tensor.get())) result.emplace_back(name, tensor);
  }
  return result;
}

Contents contents_of(const GraphState& state, bool with_training) {
  Contents contents;
  contents.parameters = parameters_of(state);
  if (!with_training) return contents;
  if (state.optimizer != nullptr) {
    contents.slots = state.optimizer->slots();
    contents.numbers.push_back(kTimeStep);
    if (!contents.slots.empty()) contents.updated = updated_among(contents.parameters, state);
  }
  if (state.loss_scale != nullptr) {
    contents.scaling = {{kLossScale, state.loss_scale}, {kGoodSteps, state.good_steps}};
  }
  contents.numbers.insert(contents.numbers.end(), {kForwardCount, kRandomSeed});
  return contents;
}

std::string slot_name(const std::string& parameter, const std::string& slot) {
  return std::string(kOptimizer) + parameter + "." + slot;
}

void run_between(const GraphState& state, const std::function<void()>& work) {
  const std::shared_ptr<Executor> executor = state.newest_executor();
  if (executor == nullptr) return work();
  executor->run_between(work);
}

// --- out -----------------------------------------------------------------------------------------

std::int64_t number_of(const GraphState& state, const std::string& name) {
  const std::lock_guard lock(structure());
  if (name == kForwardCount) return *state.forward_count;
  if (name == kRandomSeed) return static_cast<std::int64_t>(state.random_seed);
  const std::shared_ptr<Executor> executor = state.newest_executor();
  return executor != nullptr ? executor->time_step(*state.optimizer) : state.optimizer->time_step();
}

NamedData copy_of(const Contents& contents, const GraphState& state) {
  NamedData result;
  auto copy = [&](const NamedTensors& tensors) {
    for (const auto& [name, tensor] : tensors) {
      const TensorDescriptor& d = tensor->descriptor();
      TensorData data = TensorData::copy_of(nullptr, 0, d.data_type, d.shape);
      tensor->copy_to(data.bytes, data.length);
      result.emplace_back(name, std::move(data));
    }
  };
  copy(contents.parameters);
  copy(contents.scaling);
  for (const auto& [name, tensor] : contents.updated) {
    std::vector<TensorData> buffers = copy_optimizer_data(*tensor, contents.slots);
    for (std::size_t k = 0; k < buffers.size(); ++k) {
      result.emplace_back(slot_name(name, contents.slots[k]), std::move(buffers[k]));
    }
  }
  for (const std::string& name : contents.numbers) {
    const std::int64_t number = number_of(state, name);
    result.emplace_back(name, TensorData::copy_of(&number, sizeof number, DataType::kInt64, {}));
  }
  return result;
}

// --- in ------------------------------------------------------------------------------------------

// Values by name, and how their types are called where they come from.
struct Values {
  std::string source;
  std::map<std::string, StoredTensor> tensors;

  bool any_of_training() const {
    for (const auto& [name, tensor] : tensors) {
      if (name.starts_with(kOptimizer) || name.starts_with(kState)) return true;
    }
    return false;
  }
  const TensorData& at(const std::string& name) const { return tensors.at(name).data; }
};

// Collects what differs, so that one error says all of it.
class Differences {
 public:
  explicit Differences(const Values& values) : values_(values) {}

  void expect(const std::string& name, DataType type, const Shape& shape) {
    expected_.insert(name);
    const auto found = values_.tensors.find(name);
    if (found == values_.tensors.end()) return add("missing: '" + name + "'");
    const StoredTensor& got = found->second;
    if (got.data.data_type != type) {
      add("'" + name + "': expected " + traingraph::name(type) + " but got " + got.type);
    }
    if (got.data.shape != shape) {
      add("'" + name + "': expected shape " + to_string(shape) + " but got " +
          to_string(got.data.shape));
    }
    const bool number = type == DataType::kInt64 && shape.empty() && name != kRandomSeed;
    if (number && got.data.data_type == type && got.data.shape == shape) {
      const std::int64_t least = name == kTimeStep ? 1 : 0;
      std::int64_t value = 0;
      std::memcpy(&value, got.data.bytes, sizeof value);
      if (value < least) {
        add("'" + name + "': expected at least " + std::to_string(least) + " but got " +
            std::to_string(value));
      }
    }
  }

  // Raises what was found, with the names that nothing expected.
  void raise(bool ignores_training) {
    for (const auto& [name, tensor] : values_.tensors) {
      const bool of_training = name.starts_with(kOptimizer) || name.starts_with(kState);
      if (expected_.contains(name) || (ignores_training && of_training)) continue;
      add("unexpected: '" + name + "'");
    }
    if (count_ == 0) return;
    throw InvalidArgument("[load] expected the tensors of this graph but " + values_.source +
                          " differs in " + std::to_string(count_) +
                          (count_ == 1 ? " place:" : " places:") + text_);
  }

 private:
  void add(const std::string& text) {
    text_ += "\n  " + text;
    ++count_;
  }

  const Values& values_;
  std::set<std::string> expected_;
  std::string text_;
  int count_ = 0;
};

void check(const Values& values, const Contents& contents, bool training) {
  Differences differences(values);
  auto expect = [&](const std::string& name, const Tensor& tensor) {
    differences.expect(name, tensor.descriptor().data_type, tensor.descriptor().shape);
  };
  for (const auto& [name, tensor] : contents.parameters) expect(name, *tensor);
  for (const auto& [name, tensor] : contents.updated) {
    for (const std::string& slot : contents.slots) expect(slot_name(name, slot), *tensor);
  }
  for (const char* name : {kLossScale, kGoodSteps}) {
    if (values.tensors.contains(name)) differences.expect(name, DataType::kFloat32, {1});
  }
  for (const std::string& name : contents.numbers) differences.expect(name, DataType::kInt64, {});
  differences.raise(!training);
}

// Into the memory that the tensor already has, which may be the caller's, and on to the device.
void replace_data(Tensor& tensor, const TensorData& data) {
  TensorState& state = tensor.state();
  std::unique_lock lock(state.host);
  std::memcpy(state.data.bytes, data.bytes, data.length);
  state.device_data = {};
  state.host_is_newer = true;
  lock.unlock();
  if (state.parameter == nullptr) return;
  state.parameter->stream->run([&] { upload_if_newer(tensor); });
}

void replace_optimizer_data(Tensor& tensor, std::vector<TensorData> data,
                            const std::vector<std::string>& slots) {
  tensor.set_optimizer_data(std::move(data));
  const ParameterState* parameter = tensor.state().parameter.get();
  // A graph that has not been compiled takes it at its first execution.
  if (parameter == nullptr) return;
  parameter->stream->run([&] { upload_optimizer_data(tensor, slots); });
  const std::lock_guard lock(tensor.state().host);
  tensor.state().optimizer_data.clear();  // no copy beside the device's
}

void replace_number(GraphState& state, const std::string& name, std::int64_t value) {
  if (name == kForwardCount) {
    *state.forward_count = value;
  } else if (name == kTimeStep) {
    const std::shared_ptr<Executor> executor = state.newest_executor();
    if (executor != nullptr) return executor->set_time_step(*state.optimizer, value);
    state.optimizer->set_time_step(value);
  } else if (const auto seed = static_cast<std::uint64_t>(value); seed != state.random_seed) {
    // Seeds are compiled in.
    const std::lock_guard lock(structure());
    state.random_seed = seed;
    ++state.changes;
  }
}

// A checkpoint without a scale starts one anew.
void replace_scaling(const Contents& contents, const Values& values) {
  for (const auto& [name, tensor] : contents.scaling) {
    const float start = name == kLossScale ? static_cast<float>(LossScaling::kStart) : 0.0f;
    const auto found = values.tensors.find(name);
    replace_data(*tensor, found != values.tensors.end()
                              ? found->second.data
                              : TensorData::copy_of(&start, sizeof start, DataType::kFloat32, {1}));
  }
}

void replace(const Contents& contents, const Values& values, GraphState& state) {
  for (const auto& [name, tensor] : contents.parameters) replace_data(*tensor, values.at(name));
  replace_scaling(contents, values);
  for (const auto& [name, tensor] : contents.updated) {
    std::vector<TensorData> buffers;
    for (const std::string& slot : contents.slots) {
      buffers.push_back(values.at(slot_name(name, slot)));
    }
    replace_optimizer_data(*tensor, std::move(buffers), contents.slots);
  }
  for (const std::string& name : contents.numbers) {
    std::int64_t number = 0;
    std::memcpy(&number, values.at(name).bytes, sizeof number);
    replace_number(state, name, number);
  }
}

// Everything is checked before anything is changed.
void take(const Values& values, GraphState& state) {
  const bool with_training = state.training && values.any_of_training();
  // Also before a compile, which then takes them.
  const bool scaled = with_training && values.tensors.contains(kLossScale);
  Contents contents = contents_of(*state.snapshot(), with_training);
  check(values, contents, state.training);
  if (scaled && contents.scaling.empty()) {
    {
      const std::lock_guard lock(structure());
      LossScaling::prepare(state);
    }
    contents = contents_of(*state.snapshot(), with_training);
  }
  for (const auto& [name, tensor] : contents.parameters) {
    const std::lock_guard lock(tensor->state().host);
    if (tensor->data().bytes != nullptr) continue;
    const TensorDescriptor& d = tensor->descriptor();
    tensor->state().data = TensorData::copy_of(nullptr, 0, d.data_type, d.shape);
  }
  run_between(state, [&] { replace(contents, values, state); });
}

}  // namespace

NamedTensors ExecutableGraph::named_parameters() const {
  return parameters_of(*state_->snapshot());
}

NamedData ExecutableGraph::copy_state() const {
  const Contents contents = contents_of(*state_->snapshot(), state_->training);
  NamedData result;
  run_between(*state_, [&] { result = copy_of(contents, *state_); });
  return result;
}

void ExecutableGraph::save(const std::string& path) const {
  std::map<std::string, std::string> metadata{{"format", "traingraph"},
                                              {"version", Platform::version()}};
  const OptimizerPtr optimizer = state_->snapshot()->optimizer;
  if (optimizer != nullptr) metadata["optimizer"] = optimizer->description();
  write_safetensors(path, copy_state(), metadata);
}

void ExecutableGraph::load(const std::string& path) {
  Values values{"'" + path + "'", {}};
  for (StoredTensor& tensor : parse_safetensors(read_file(path), path).tensors) {
    std::string name = tensor.name;
    values.tensors.emplace(std::move(name), std::move(tensor));
  }
  take(values, *state_);
}

void ExecutableGraph::load_state(const NamedData& given) {
  Values values{"what was given", {}};
  for (const auto& [name, data] : given) {
    if (data.bytes == nullptr) {
      throw InvalidArgument("[load_state] expected data for '" + name + "' but got none");
    }
    // Copies: an array may be the memory of a tensor that is about to be written.
    StoredTensor tensor{name, traingraph::name(data.data_type),
                        TensorData::copy_of(data.bytes, data.length, data.data_type, data.shape)};
    if (!values.tensors.emplace(name, std::move(tensor)).second) {
      throw InvalidArgument("[load_state] expected each name once but got '" + name + "' twice");
    }
  }
  take(values, *state_);
}

}  // namespace traingraph
