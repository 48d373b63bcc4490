// Binds the caller's arrays to a job: arguments of the call, arrays bound before, the tensor's own
// data, or a linked graph's values.
#include "graph/run/bound_inputs.h"

#include <traingraph/errors.h>

#include "graph/lowering/check_integers.h"
#include "runtime/device_memory.h"

namespace traingraph {

using ir::kNone;

namespace {

// Where this program reads the tensor as a user gradient; null where it does not.
const BoundSlot* user_gradient(const CompiledGraph* program, const Tensor& tensor) {
  if (program == nullptr) return nullptr;
  for (const BoundSlot& slot : program->bound) {
    const bool is_it = slot.tensor.get() == &tensor && slot.value != kNone;
    if (is_it && slot.from == BoundSlot::From::user_gradient) return &slot;
  }
  return nullptr;
}

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

std::size_t BoundInputs::make_room_like(const BoundInputs& before) {
  staging_.make_room_like(before.staging_);
  MemoryPlan plan;
  staging_.list(plan);
  return uses_host_memory(backend_) ? plan.staging_bytes : 0;
}

void BoundInputs::take_over(const BoundInputs& before) {
  take_arrays(before);
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
                        const CompiledGraph* forward, const ProgramCache& programs) {
  for (const auto& [name, array] : data) {
    const TensorPtr* tensor = find(tensors, name);
    if (tensor == nullptr) {
      throw InvalidArgument("[bind_and_write_data] expected names of " + names_of(tensors) +
                            " but got '" + name + "'");
    }
    const BoundSlot slot{name, *tensor, kNone, {}};
    ir::Type type{(*tensor)->descriptor().data_type, (*tensor)->descriptor().shape, false};
    if (const BoundSlot* gradient = user_gradient(forward, **tensor)) {
      type = forward->program->graph.type(gradient->value);
    } else if (batch != 0 && programs.has_batch(**tensor)) {
      type.shape[0] = batch;
    }
    check_data(slot, type, array, backend_);
    programs.check_ranges(name, **tensor, type, array);
    GivenData& given = data_[tensor->get()].bound;
    stage(**tensor, given, type, array);
    given.bound_at = exchanges_.count_binding();
    written_gradients_.insert(tensor->get());
  }
}

std::int64_t BoundInputs::bound_rows(std::int64_t declared_batch, bool skips) const {
  Rows rows(declared_batch);
  for (const auto* group : {&graph_.inputs, &graph_.loss_labels, &graph_.loss_label_weights}) {
    for (const auto& [name, tensor] : *group) {
      const auto found = data_.find(tensor.get());
      if (found == data_.end() || found->second.bound.version == 0) continue;
      const InputData& given = found->second;
      if (skips && given.argument.version > given.bound.version) continue;
      if (!rows.count(given.bound.data, *tensor)) return 0;
    }
  }
  return rows.agreed();
}

void BoundInputs::bind_group(const NamedData& data, const NamedTensors& declared, const char* what,
                             const CompiledGraph& graph, const CallDetails& details) {
  std::size_t next_name = 0;
  std::size_t next_slot = 0;
  for (const auto& [name, array] : data) {
    const TensorPtr* tensor = find_from(next_name, declared, name);
    if (tensor != nullptr && graph_.constants.contains(*tensor)) {
      throw InvalidArgument(std::string("[execute] expected no data for ") + what + " '" + name +
                            "': compile was told that it is constant");
    }
    if (tensor == nullptr) {
      throw InvalidArgument(std::string("[execute] expected ") + what + " of " +
                            names_of(declared) + " but got '" + name + "'");
    }
    const BoundSlot* const slot = find_from(next_slot, graph.bound, [&](const BoundSlot& each) {
      return each.tensor == *tensor && each.value != kNone;
    });
    if (slot == nullptr) continue;
    const ir::Type& type = graph.program->graph.type(slot->value);
    check_data(*slot, type, array, backend_);
    check_range(slot->name, slot->range, type, array, details.samples);
    if (slot->given->argument.call == calls_) {
      throw InvalidArgument(std::string("[execute] expected data once for each tensor but ") +
                            what + " '" + name + "' is the second name of one");
    }
    give_argument(*slot, type, array, details);
  }
}

bool BoundInputs::is_given_for_link(const BoundSlot& slot) const {
  if (slot.given->argument.call == calls_) return true;
  const std::uint64_t bound_at = slot.given->bound.bound_at;
  return bound_at != 0 && !exchanges_.is_newer(*slot.tensor, bound_at);
}

void BoundInputs::give_argument(const BoundSlot& slot, const ir::Type& type, const TensorData& data,
                                const CallDetails& details) {
  const auto address = reinterpret_cast<std::uintptr_t>(data.bytes);
  const bool aligned = address % element_bytes(type.data_type) == 0;
  GivenData& given = slot.given->argument;
  if (uses_host_memory(backend_) && !aligned) {
    stage(*slot.tensor, given, type, data);
  } else {
    give(given, data);
    staging_.drop_copies(*slot.tensor);
  }
  given.call = calls_;
  if (data.gpu >= 0) given.rows = details.rows;
  if (!details.keeps_bound) slot.given->bound = {};
}

const GivenData* BoundInputs::own(const BoundSlot& slot) {
  TensorState& state = slot.tensor->state();
  const std::lock_guard lock(state.host);
  if (state.writes == 0 || state.given().bytes == nullptr) return nullptr;
  GivenData& given = slot.given->own;
  if (slot.given->writes != state.writes || !is_same(given.data, state.given())) {
    slot.given->writes = state.writes;
    give(given, state.given());
  }
  return &given;
}

const GivenData* BoundInputs::chosen(const BoundSlot& slot, bool skips, bool names_data) {
  const GivenData& argument = slot.given->argument;
  const GivenData& bound = slot.given->bound;
  if (argument.call == calls_) return &argument;
  if (skips && argument.version > bound.version) return &argument;
  if (bound.version != 0) return &bound;
  if (!names_data && argument.version != 0) return &argument;
  return own(slot);
}

BoundArray BoundInputs::bound(const BoundSlot& slot, const ir::Type& type, const GivenData& given) {
  if (given.call != calls_) {
    check_data(slot, type, given.data, backend_);
    // What a call brought to a device is there as it was checked, whatever became of the array.
    const bool is_there = given.call != 0 && !uses_host_memory(backend_);
    if (!is_there) check_range(slot.name, slot.range, type, given.data);
  }
  return staging_.bound(slot.value, *slot.tensor, type, given);
}

void BoundInputs::bind_inputs(Job& job, const ExecutionArguments& arguments,
                              const CallDetails& details) {
  const CompiledGraph& graph = *job.graph;
  const bool skips = has(arguments.options, ExecutionOptions::kSkipWritingInputDataToDevice);
  ++calls_;
  if (!skips) {
    bind_group(arguments.inputs, graph_.inputs, "inputs", graph, details);
    bind_group(arguments.loss_labels, graph_.loss_labels, "loss labels", graph, details);
    bind_group(arguments.loss_label_weights, graph_.loss_label_weights, "loss label weights", graph,
               details);
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
    const GivenData* const given = chosen(slot, skips, names_data);
    if (given == nullptr) {
      missing += (missing.empty() ? "'" : ", '") + slot.name + "'";
      continue;
    }
    job.bound.push_back(bound(slot, graph.program->graph.type(slot.value), *given));
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
      stage(*slot.tensor, slot.given->bound, type, tensor.given());
      tensor.host_is_newer = false;
      written_gradients_.insert(slot.tensor.get());
    }
    if (!written_gradients_.contains(slot.tensor.get())) {
      throw InvalidArgument("[execute_gradient] expected " + slot.name +
                            " to be written since the last execute_forward but it was not");
    }
    job.bound.push_back(bound(slot, type, slot.given->bound));
  }
}

}  // namespace traingraph
