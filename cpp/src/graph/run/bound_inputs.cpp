// Binds the caller's arrays to a job: arguments of the call, arrays bound before, the tensor's own
// data, or a linked graph's values.
#include "graph/run/bound_inputs.h"

#include <traingraph/errors.h>

#include "graph/lowering/check_integers.h"
#include "runtime/device_memory.h"

namespace traingraph {

using ir::kNone;

namespace {

bool is_same(const TensorData& a, const TensorData& b) {
  return a.bytes == b.bytes && a.length == b.length && a.data_type == b.data_type &&
         a.shape == b.shape && a.writable == b.writable && a.gpu == b.gpu && a.owner == b.owner;
}

}  // namespace

void BoundInputs::place(CompiledGraph& graph) {
  const ir::Graph& ops = graph.program->graph;
  for (BoundSlot& slot : graph.bound) {
    slot.given = &data_[slot.tensor.get()];
    if (slot.value == kNone || !slot.may_be_given()) continue;
    staging_.place(*slot.tensor, ir::storage_bytes(ops.type(slot.value), {}));
  }
}

void BoundInputs::take_over(BoundInputs& before) {
  for (auto& [tensor, given] : before.data_) data_[tensor] = std::move(given);
  versions_ = before.versions_;
  calls_ = before.calls_;
  staging_.take_over(before.staging_);
}

void BoundInputs::take_arrays(const BoundInputs& other) {
  for (const auto& [tensor, given] : other.data_) data_[tensor] = given;
  versions_ = other.versions_;
  calls_ = other.calls_;
}

void BoundInputs::give(GivenData& given, const TensorData& data) {
  if (!is_same(given.data, data)) given.data = data;
  given.version = ++versions_;
  given.call = 0;
  given.bound_at = 0;
  given.rows = {};
}

void BoundInputs::stage(const Tensor& tensor, GivenData& given, const ir::Type& type,
                        const TensorData& data) {
  if (data.gpu >= 0) return give(given, data);
  given = {};
  give(given, staging_.copy_of(tensor, type, data));
}

void BoundInputs::write(const NamedData& data, const NamedTensors& tensors, std::int64_t batch,
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
    GivenData& given = data_[tensor->get()];
    stage(**tensor, given, type, array);
    given.bound_at = exchanges_.count_binding();
    written_gradients_.insert(tensor->get());
  }
}

std::int64_t BoundInputs::bound_rows() const {
  Rows rows;
  for (const auto* group : {&graph_.inputs, &graph_.loss_labels, &graph_.loss_label_weights}) {
    for (const auto& [name, tensor] : *group) {
      const auto found = data_.find(tensor.get());
      if (found == data_.end() || found->second.version == 0 || found->second.call != 0) continue;
      if (!rows.add(*tensor, found->second.data.shape)) return 0;
    }
  }
  return rows.agreed();
}

void BoundInputs::bind_group(const NamedData& data, const NamedTensors& declared, const char* what,
                             const CompiledGraph& graph, const ChosenRows& rows) {
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
      if (slot.given->call == calls_) {
        throw InvalidArgument(std::string("[execute] expected data once for each tensor but ") +
                              what + " '" + name + "' is the second name of one");
      }
      give_argument(slot, type, array, rows);
    }
  }
}

bool BoundInputs::is_given_for_link(const BoundSlot& slot) const {
  if (slot.given->call == calls_) return true;
  const std::uint64_t bound_at = slot.given->bound_at;
  return bound_at != 0 && !exchanges_.is_newer(*slot.tensor, bound_at);
}

void BoundInputs::give_argument(const BoundSlot& slot, const ir::Type& type, const TensorData& data,
                                const ChosenRows& rows) {
  const auto address = reinterpret_cast<std::uintptr_t>(data.bytes);
  const bool aligned = address % element_bytes(type.data_type) == 0;
  if (uses_host_memory(backend_) && !aligned) {
    stage(*slot.tensor, *slot.given, type, data);
  } else {
    give(*slot.given, data);
    staging_.drop_copies(*slot.tensor);
  }
  slot.given->call = calls_;
  if (data.gpu >= 0) slot.given->rows = rows;
}

bool BoundInputs::give_own(const BoundSlot& slot, const ir::Type& type) {
  TensorState& state = slot.tensor->state();
  std::unique_lock lock(state.host);
  const TensorData own = state.given();
  lock.unlock();
  if (own.bytes == nullptr) return false;
  check_data(slot, type, own, backend_);
  check_range(slot.name, slot.range, type, own);
  give(*slot.given, own);
  return true;
}

BoundArray BoundInputs::bound(const BoundSlot& slot, const ir::Type& type) {
  if (slot.given->call != calls_) check_data(slot, type, slot.given->data, backend_);
  return staging_.bound(slot.value, *slot.tensor, type, *slot.given);
}

void BoundInputs::bind_inputs(Job& job, const ExecutionArguments& arguments,
                              const ChosenRows& rows) {
  const CompiledGraph& graph = *job.graph;
  const bool skips = has(arguments.options, ExecutionOptions::kSkipWritingInputDataToDevice);
  ++calls_;
  if (!skips) {
    bind_group(arguments.inputs, graph_.inputs, "inputs", graph, rows);
    bind_group(arguments.loss_labels, graph_.loss_labels, "loss labels", graph, rows);
    bind_group(arguments.loss_label_weights, graph_.loss_label_weights, "loss label weights", graph,
               rows);
  }
  // The separate forward of a training graph has no data of its own; passes in one call have.
  const bool names_data =
      !skips && (runs_gradient(job.run) || !graph_.training || !arguments.inputs.empty());
  std::string missing;
  job.bound.reserve(graph.bound.size());
  for (const BoundSlot& slot : graph.bound) {
    if (slot.value == kNone || slot.is_gradient()) continue;
    if (slot.may_be_linked() && !is_given_for_link(slot)) {
      job.bound.push_back(exchanges_.bound(graph, slot));
      continue;
    }
    const ir::Type& type = graph.program->graph.type(slot.value);
    const GivenData& given = *slot.given;
    // What an earlier call was given serves this one only when it says so.
    const bool is_there = given.version != 0
                              ? !names_data || given.call == 0 || given.call == calls_
                              : give_own(slot, type);
    if (!is_there) {
      missing += (missing.empty() ? "'" : ", '") + slot.name + "'";
      continue;
    }
    job.bound.push_back(bound(slot, type));
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

void BoundInputs::bind_gradients(Job& job) {
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
      stage(*slot.tensor, *slot.given, type, tensor.given());
      tensor.host_is_newer = false;
      written_gradients_.insert(slot.tensor.get());
    }
    if (!written_gradients_.contains(slot.tensor.get())) {
      throw InvalidArgument("[execute_gradient] expected " + slot.name +
                            " to be written since the last execute_forward but it was not");
    }
    job.bound.push_back(bound(slot, type));
  }
}

}  // namespace traingraph
