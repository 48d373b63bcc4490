#include "graph/given_arrays.h"

#include <traingraph/errors.h>

namespace traingraph {

using ir::kNone;

void GivenArrays::place(const CompiledGraph& graph) {
  const ir::Graph& ops = graph.program->graph;
  for (const BoundSlot& slot : graph.bound) {
    const bool given =
        slot.from == BoundSlot::From::caller || slot.from == BoundSlot::From::user_gradient;
    if (slot.value == kNone || !given) continue;
    staging_.place(*slot.tensor, ir::storage_bytes(ops.type(slot.value), {}));
  }
}

void GivenArrays::take_over(GivenArrays& before) {
  data_ = std::move(before.data_);
  versions_ = before.versions_;
  calls_ = before.calls_;
  staging_.take_over(before.staging_);
}

void GivenArrays::take_arrays(const GivenArrays& other) {
  data_ = other.data_;
  versions_ = other.versions_;
  calls_ = other.calls_;
}

void GivenArrays::give(const Tensor& tensor, const TensorData& data) {
  GivenData& given = data_[&tensor];
  given.data = data;
  given.version = ++versions_;
  given.call = 0;
}

void GivenArrays::stage(const Tensor& tensor, const ir::Type& type, const TensorData& data) {
  if (data.gpu >= 0) return give(tensor, data);
  data_.erase(&tensor);
  give(tensor, staging_.copy_of(tensor, type, data));
}

void GivenArrays::write(const NamedData& data, const NamedTensors& tensors, std::int64_t batch,
                        const ProgramCache& programs) {
  for (const auto& [name, array] : data) {
    const TensorPtr* tensor = find(tensors, name);
    if (tensor == nullptr) {
      throw InvalidArgument("[bind_and_write_data] expected names of " + names_of(tensors) +
                            " but got '" + name + "'");
    }
    const BoundSlot slot{name, *tensor, kNone, {}};
    ir::Type type{(*tensor)->descriptor().data_type, (*tensor)->descriptor().shape, false};
    if (batch != 0 && programs.has_batch(**tensor)) type.shape[0] = batch;
    check_data(slot, type, array, backend_);
    programs.check_ranges(name, **tensor, type, array);
    stage(**tensor, type, array);
    written_gradients_.insert(tensor->get());
  }
}

void GivenArrays::bind_group(const NamedData& data, const NamedTensors& declared, const char* what,
                             const CompiledGraph& graph) {
  for (const auto& [name, array] : data) {
    const TensorPtr* tensor = find(declared, name);
    if (tensor != nullptr && graph_.constants.contains(*tensor)) {
      throw InvalidArgument(std::string("[execute] expected no data for ") + what + " '" + name +
                            "': compile was told that it is constant");
    }
    if (tensor == nullptr) {
      throw InvalidArgument(std::string("[execute] expected ") + what + " of " +
                            names_of(declared) + " but got '" + name + "'");
    }
    for (const BoundSlot& slot : graph.bound) {
      if (slot.tensor != *tensor || slot.value == kNone) continue;
      const ir::Type& type = graph.program->graph.type(slot.value);
      check_data(slot, type, array, backend_);
      check_range(slot.name, slot.range, type, array);
      if (given_now(*slot.tensor)) {
        throw InvalidArgument(std::string("[execute] expected data once for each tensor but ") +
                              what + " '" + name + "' is the second name of one");
      }
      give_argument(*slot.tensor, type, array);
    }
  }
}

bool GivenArrays::given_now(const Tensor& tensor) const {
  const auto found = data_.find(&tensor);
  return found != data_.end() && found->second.call == calls_;
}

void GivenArrays::give_argument(const Tensor& tensor, const ir::Type& type,
                                const TensorData& data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data.bytes);
  const bool aligned = address % element_bytes(type.data_type) == 0;
  if (backend_.uses_host_memory() && !aligned) {
    stage(tensor, type, data);
  } else {
    give(tensor, data);
    staging_.drop_copies(tensor);
  }
  data_.at(&tensor).call = calls_;
}

const GivenData* GivenArrays::given_or_own(const BoundSlot& slot, const ir::Type& type) {
  const auto found = data_.find(slot.tensor.get());
  if (found != data_.end()) return &found->second;
  TensorState& state = slot.tensor->state();
  std::unique_lock lock(state.host);
  const TensorData own = state.given();
  lock.unlock();
  if (own.bytes == nullptr) return nullptr;
  check_data(slot, type, own, backend_);
  check_range(slot.name, slot.range, type, own);
  give(*slot.tensor, own);
  return &data_.at(slot.tensor.get());
}

BoundArray GivenArrays::bound(const BoundSlot& slot, const ir::Type& type, const GivenData& given) {
  check_data(slot, type, given.data, backend_);
  return staging_.bound(slot.value, *slot.tensor, type, given);
}

void GivenArrays::bind_inputs(Job& job, const ExecutionArguments& arguments) {
  const CompiledGraph& graph = *job.graph;
  const bool skips = has(arguments.options, ExecutionOptions::kSkipWritingInputDataToDevice);
  ++calls_;
  if (!skips) {
    bind_group(arguments.inputs, graph_.inputs, "inputs", graph);
    bind_group(arguments.loss_labels, graph_.loss_labels, "loss labels", graph);
    bind_group(arguments.loss_label_weights, graph_.loss_label_weights, "loss label weights",
               graph);
  }
  // The separate forward of a training graph has no data of its own; passes in one call have.
  const bool names_data =
      !skips && (runs_gradient(job.run) || !graph_.training || !arguments.inputs.empty());
  std::string missing;
  for (const BoundSlot& slot : graph.bound) {
    if (slot.value == kNone || slot.is_gradient()) continue;
    if (slot.from == BoundSlot::From::linked_value) {
      job.bound.push_back(exchanges_.bound(graph, slot));
      continue;
    }
    const ir::Type& type = graph.program->graph.type(slot.value);
    const GivenData* given = given_or_own(slot, type);
    // What an earlier call was given serves this one only when it says so.
    if (given == nullptr || (names_data && given->call != 0 && given->call != calls_)) {
      missing += (missing.empty() ? "'" : ", '") + slot.name + "'";
      continue;
    }
    job.bound.push_back(bound(slot, type, *given));
  }
  if (!missing.empty()) {
    throw InvalidArgument("[execute] expected data for " + missing + " but none was given");
  }
  // A user gradient belongs to the forward pass before it.
  written_gradients_.clear();
  for (const GradientHandle& handle : graph_.user_gradients) {
    handle.gradient->state().host_is_newer = false;
  }
}

void GivenArrays::bind_gradients(Job& job) {
  const CompiledGraph& graph = *job.graph;
  for (const BoundSlot& slot : graph.bound) {
    if (slot.value == kNone || !slot.is_gradient()) continue;
    if (slot.from == BoundSlot::From::linked_gradient) {
      job.bound.push_back(exchanges_.bound(graph, slot));
      continue;
    }
    const ir::Type& type = graph.program->graph.type(slot.value);
    TensorState& tensor = slot.tensor->state();
    if (tensor.host_is_newer) {
      const std::lock_guard lock(tensor.host);
      check_data(slot, type, tensor.given(), backend_);
      stage(*slot.tensor, type, tensor.given());
      tensor.host_is_newer = false;
      written_gradients_.insert(slot.tensor.get());
    }
    if (!written_gradients_.contains(slot.tensor.get())) {
      throw InvalidArgument("[execute_gradient] expected " + slot.name +
                            " to be written since the last execute_forward but it was not");
    }
    job.bound.push_back(bound(slot, type, data_.at(slot.tensor.get())));
  }
}

}  // namespace traingraph
