// Binds the caller's arrays to a job: arguments of the call, arrays bound before, the tensor's own
// data, or a linked graph's values.
#include "graph/run/bound_inputs.h"

#include <algorithm>

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

[[noreturn]] void refuse_missing(const std::string& names, const CallDetails& details) {
  throw InvalidArgument(std::string("[") + details.call + "] expected data for " + names +
                        " but none was given");
}

[[noreturn]] void refuse_second(const std::string& name, const char* what,
                                const CallDetails& details) {
  throw InvalidArgument(std::string("[") + details.call +
                        "] expected data once for each tensor but " + what + " '" + name +
                        "' is the second name of one");
}

// Of the job's rows, in `cut` where the program has more.
const ir::Type& type_of(const Job& job, ir::ValueId value, ir::Type& cut) {
  if (job.rows == job.graph->batch) return job.graph->program->graph.type(value);
  return cut = job.graph->type(value, job.rows);
}

bool is_same(const TensorData& a, const TensorData& b) {
  return a.bytes == b.bytes && a.length == b.length && a.data_type == b.data_type &&
         a.shape == b.shape && a.writable == b.writable && a.gpu == b.gpu && a.owner == b.owner;
}

}  // namespace

BoundInputs::BoundInputs(const GraphState& graph, const Backend& backend,
                         const Exchanges& exchanges, const BoundInputs* before)
    : graph_(graph),
      backend_(backend),
      exchanges_(exchanges),
      inputs_(before != nullptr && &before->backend_ == &backend
                  ? before->inputs_
                  : std::make_shared<GivenInputs>()) {}

void BoundInputs::place(CompiledGraph& graph) {
  const ir::Graph& ops = graph.program->graph;
  for (BoundSlot& slot : graph.bound) {
    slot.input = &inputs_->data[slot.tensor.get()];
    if (slot.value == kNone || !slot.may_be_given()) continue;
    const ir::Type& type = ops.type(slot.value);
    if (!uses_host_memory(backend_)) {
      reserve(slot.input->slot, backend_, ir::storage_bytes(type, {}));
    } else if (graph.takes_fewer && type.batched) {
      slot.filled = &filled_[slot.tensor.get()];
      reserve(*slot.filled, backend_, ir::storage_bytes(type, {}));
    }
  }
}

void BoundInputs::list(MemoryPlan& plan) const {
  const auto add = [&](const Tensor& tensor, std::size_t bytes) {
    plan.entries.push_back({tensor.label(), "staging", bytes});
    plan.staging_bytes += bytes;
  };
  for (const auto& [tensor, input] : inputs_->data) {
    for (const HostCopy& copy : input.copies) add(*tensor, copy.bytes);
    if (input.slot.capacity != 0) add(*tensor, input.slot.capacity);
  }
  for (const auto& [tensor, slot] : filled_) add(*tensor, slot.capacity);
}

std::size_t BoundInputs::copied_bytes() const {
  std::size_t bytes = 0;
  if (!uses_host_memory(backend_)) return bytes;
  for (const auto& [tensor, input] : inputs_->data) {
    for (const HostCopy& copy : input.copies) bytes += copy.bytes;
  }
  return bytes;
}

void BoundInputs::take_arrays(const BoundInputs& other) {
  for (const auto& [tensor, theirs] : other.inputs_->data) {
    InputData& ours = inputs_->data[tensor];
    ours.argument = theirs.argument;
    ours.bound = theirs.bound;
    ours.own = theirs.own;
    ours.writes = theirs.writes;
  }
  inputs_->versions = other.inputs_->versions;
  inputs_->calls = other.inputs_->calls;
}

void BoundInputs::store(StoredData& stored, const TensorData& data) {
  if (!is_same(stored.data, data)) stored.data = data;
  stored.version = ++inputs_->versions;
  stored.call = 0;
  stored.bound_at = 0;
  stored.rows = {};
}

void BoundInputs::copy(InputData& input, StoredData& stored, const ir::Type& type,
                       const TensorData& data) {
  if (data.gpu >= 0) return store(stored, data);
  stored = {};
  store(stored, copy_of(data, type, backend_, input.copies));
}

void BoundInputs::use(InputData& input, StoredData& stored, const ir::Type& type,
                      const TensorData& data) {
  const bool odd = reinterpret_cast<std::size_t>(data.bytes) % element_bytes(type.data_type) != 0;
  if (odd && uses_host_memory(backend_)) return copy(input, stored, type, data);
  store(stored, data);
  drop_unread(input.copies);
}

void BoundInputs::write(const NamedData& data, const NamedTensors& tensors, std::int64_t batch,
                        const Passes& forward, const ProgramCache& programs, bool copies) {
  for (const auto& [name, array] : data) {
    const TensorPtr* tensor = find(tensors, name);
    if (tensor == nullptr) {
      throw InvalidArgument("[bind_and_write_data] expected names of " + names_of(tensors) +
                            " but got '" + name + "'");
    }
    const BoundSlot slot{name, *tensor, kNone, {}};
    ir::Type type{(*tensor)->descriptor().data_type, (*tensor)->descriptor().shape, false};
    const BoundSlot* const gradient = user_gradient(forward.forward.get(), **tensor);
    if (gradient != nullptr) {
      type = forward.forward->type(gradient->value, forward.rows);
    } else if (batch != 0 && programs.has_batch(**tensor)) {
      type.shape[0] = batch;
    }
    check_data(slot, type, array, backend_);
    programs.check_ranges(name, **tensor, type, array);
    InputData& input = inputs_->data[tensor->get()];
    const bool copied = copies || gradient == nullptr || !uses_host_memory(backend_);
    copied ? copy(input, input.bound, type, array) : use(input, input.bound, type, array);
    input.bound.bound_at = exchanges_.count_binding();
    written_gradients_.insert(tensor->get());
  }
}

std::int64_t BoundInputs::bound_rows(std::int64_t declared_batch, bool skips) const {
  Rows rows(declared_batch);
  for (const auto* group : {&graph_.inputs, &graph_.loss_labels, &graph_.loss_label_weights}) {
    for (const auto& [name, tensor] : *group) {
      const auto found = inputs_->data.find(tensor.get());
      if (found == inputs_->data.end() || found->second.bound.version == 0) continue;
      const InputData& input = found->second;
      if (skips && input.argument.version > input.bound.version) continue;
      if (!rows.count(input.bound.data, *tensor)) return 0;
    }
  }
  return rows.agreed();
}

void BoundInputs::check_takes_data(const TensorPtr* tensor, const std::string& name,
                                   const NamedTensors& declared, const char* what,
                                   const CallDetails& details) const {
  const std::string call = std::string("[") + details.call + "] expected ";
  if (tensor == nullptr) {
    throw InvalidArgument(call + what + " of " + names_of(declared) + " but got '" + name + "'");
  }
  if (!graph_.constants.contains(*tensor)) return;
  throw InvalidArgument(call + "no data for " + what + " '" + name +
                        "': compile was told that it is constant");
}

void BoundInputs::bind_group(const NamedData& data, const NamedTensors& declared, const char* what,
                             const Job& job, const CallDetails& details) {
  std::size_t next_name = 0;
  std::size_t next_slot = 0;
  for (const auto& [name, array] : data) {
    const TensorPtr* tensor = find_from(next_name, declared, name);
    check_takes_data(tensor, name, declared, what, details);
    const BoundSlot* const slot = find_from(
        next_slot, job.graph->bound,
        [&](const BoundSlot& each) { return each.tensor == *tensor && each.value != kNone; });
    if (slot == nullptr) continue;
    ir::Type cut;
    const ir::Type& type = type_of(job, slot->value, cut);
    check_data(*slot, type, array, backend_);
    check_range(slot->name, slot->range, type, array, details.samples);
    StoredData& stored = slot->input->argument;
    if (stored.call == inputs_->calls) refuse_second(name, what, details);
    use(*slot->input, stored, type, array);
    stored.call = inputs_->calls;
    if (array.gpu >= 0) stored.rows = details.rows;
    if (!details.keeps_bound) slot->input->bound = {};
  }
}

bool BoundInputs::is_given_for_link(const BoundSlot& slot) const {
  if (slot.input->argument.call == inputs_->calls) return true;
  const std::uint64_t bound_at = slot.input->bound.bound_at;
  return bound_at != 0 && !exchanges_.is_newer(*slot.tensor, bound_at);
}

const StoredData* BoundInputs::from_tensor(const BoundSlot& slot) {
  TensorState& state = slot.tensor->state();
  const std::lock_guard lock(state.host);
  if (state.writes == 0 || state.given().bytes == nullptr) return nullptr;
  InputData& input = *slot.input;
  if (input.writes != state.writes || !is_same(input.own.data, state.given())) {
    input.writes = state.writes;
    store(input.own, state.given());
  }
  return &input.own;
}

const StoredData* BoundInputs::select(const BoundSlot& slot, bool skips, bool names_data) {
  const StoredData& argument = slot.input->argument;
  const StoredData& bound = slot.input->bound;
  if (argument.call == inputs_->calls) return &argument;
  if (skips && argument.version > bound.version) return &argument;
  if (bound.version != 0) return &bound;
  if (!names_data && argument.version != 0) return &argument;
  return from_tensor(slot);
}

BoundArray BoundInputs::bound(const BoundSlot& slot, const Job& job, const StoredData& stored) {
  const bool in_place = uses_host_memory(backend_);
  ir::Type cut;
  const ir::Type& type = type_of(job, slot.value, cut);
  const ir::Type& whole = job.graph->program->graph.type(slot.value);
  if (stored.call != inputs_->calls) {
    check_data(slot, type, stored.data, backend_);
    // What a call brought to a device is there as it was checked, whatever became of the array.
    const bool is_there = stored.call != 0 && !in_place;
    if (!is_there) check_range(slot.name, slot.range, type, stored.data);
  }
  BoundArray array{slot.value, static_cast<std::byte*>(stored.data.bytes), stored.data.owner};
  const bool is_whole = &type == &whole || type.shape == whole.shape;
  if (!in_place) {
    array.slot = &slot.input->slot;
    array.bytes = ir::storage_bytes(whole, {});
    array.version = is_whole ? stored.version : ++inputs_->versions;
    array.on_device = stored.data.gpu >= 0;
    array.lasting = stored.call == 0;
    array.rows = stored.rows;
  }
  if (is_whole) return array;
  if (in_place && backend_.traits().computes) {
    array.slot = slot.filled;
    array.version = ++inputs_->versions;
  }
  fill(array, type, whole, backend_, slot.input->filled);
  return array;
}

void BoundInputs::add_missing(std::string& missing, const BoundSlot& slot) const {
  missing += (missing.empty() ? "'" : ", '") + slot.name + "'";
  if (names(graph_.loss_label_weights, slot.tensor.get())) missing += " (label weights)";
}

void BoundInputs::bind_inputs(Job& job, const ExecutionArguments& arguments,
                              const CallDetails& details) {
  const CompiledGraph& graph = *job.graph;
  const bool skips = has(arguments.options, ExecutionOptions::kSkipWritingInputDataToDevice);
  ++inputs_->calls;
  if (!skips) {
    bind_group(arguments.inputs, graph_.inputs, "inputs", job, details);
    bind_group(arguments.loss_labels, graph_.loss_labels, "loss labels", job, details);
    bind_group(arguments.loss_label_weights, graph_.loss_label_weights, "loss label weights", job,
               details);
  }
  // The separate forward of a training graph has no data of its own; passes in one call have.
  const bool names_data = !skips && (runs_gradient(job.run) || !graph_.training ||
                                     !arguments.inputs.empty() || details.keeps_bound);
  std::string missing;
  job.bound.reserve(graph.bound.size());
  for (const BoundSlot& slot : graph.bound) {
    if (slot.value == kNone || slot.is_gradient()) continue;
    if (slot.may_be_linked() && !is_given_for_link(slot)) {
      job.bound.push_back(exchanges_.bound(graph, slot));
      continue;
    }
    const StoredData* const stored = select(slot, skips, names_data);
    if (stored == nullptr) {
      add_missing(missing, slot);
      continue;
    }
    job.bound.push_back(bound(slot, job, *stored));
  }
  if (!missing.empty()) refuse_missing(missing, details);
  // A user gradient belongs to the forward pass before it.
  written_gradients_.clear();
  for (const GradientHandle& handle : graph_.user_gradients) {
    handle.gradient->state().host_is_newer = false;
  }
}

void BoundInputs::check_given(const CompiledGraph& graph, const ExecutionArguments& arguments,
                              const CallDetails& details) const {
  std::set<const Tensor*> given;
  const auto check = [&](const NamedData& data, const NamedTensors& declared, const char* what) {
    for (const auto& [name, array] : data) {
      const TensorPtr* const tensor = traingraph::find(declared, name);
      check_takes_data(tensor, name, declared, what, details);
      if (!given.insert(tensor->get()).second) refuse_second(name, what, details);
      for (const BoundSlot& slot : graph.bound) {
        if (slot.tensor != *tensor || slot.value == kNone) continue;
        const ir::Type type = graph.type(slot.value, arguments.batch_size);
        check_data(slot, type, array, backend_);
        check_range(slot.name, slot.range, type, array, details.samples);
      }
    }
  };
  check(arguments.inputs, graph_.inputs, "inputs");
  check(arguments.loss_labels, graph_.loss_labels, "loss labels");
  check(arguments.loss_label_weights, graph_.loss_label_weights, "loss label weights");
}

void BoundInputs::check_integers(const CompiledGraph& graph,
                                 const ExecutionArguments& samples) const {
  const auto check = [&](const NamedData& data, const NamedTensors& declared) {
    for (const auto& [name, array] : data) {
      const TensorPtr* const tensor = traingraph::find(declared, name);
      for (const BoundSlot& slot : graph.bound) {
        if (tensor == nullptr || slot.tensor != *tensor || slot.value == kNone) continue;
        IntegerRange range = slot.range;
        range.descends = false;
        check_range(slot.name, range, graph.type(slot.value, samples.batch_size), array,
                    {nullptr, 0, samples.batch_size});
      }
    }
  };
  check(samples.inputs, graph_.inputs);
  check(samples.loss_labels, graph_.loss_labels);
  check(samples.loss_label_weights, graph_.loss_label_weights);
}

void BoundInputs::check_none_is_missing(const CompiledGraph& graph,
                                        const ExecutionArguments& arguments,
                                        const CallDetails& details) {
  const auto is_given = [&](const TensorPtr& tensor) {
    const std::pair<const NamedData&, const NamedTensors&> groups[] = {
        {arguments.inputs, graph_.inputs},
        {arguments.loss_labels, graph_.loss_labels},
        {arguments.loss_label_weights, graph_.loss_label_weights}};
    return std::ranges::any_of(groups, [&](const auto& group) {
      return std::ranges::any_of(group.first, [&](const auto& data) {
        const TensorPtr* const found = traingraph::find(group.second, data.first);
        return found != nullptr && *found == tensor;
      });
    });
  };
  std::string missing;
  for (const BoundSlot& slot : graph.bound) {
    if (slot.value == kNone || slot.is_gradient() || slot.may_be_linked()) continue;
    const bool is_there =
        is_given(slot.tensor) || slot.input->bound.version != 0 || from_tensor(slot) != nullptr;
    if (!is_there) add_missing(missing, slot);
  }
  if (!missing.empty()) refuse_missing(missing, details);
}

void BoundInputs::bind_gradients(Job& job) {
  const CompiledGraph& graph = *job.graph;
  for (const BoundSlot& slot : graph.bound) {
    if (slot.value == kNone || !slot.is_gradient()) continue;
    if (slot.from == BoundSlot::From::linked_gradient) {
      job.bound.push_back(exchanges_.bound(graph, slot));
      continue;
    }
    ir::Type cut;
    const ir::Type& type = type_of(job, slot.value, cut);
    TensorState& tensor = slot.tensor->state();
    if (tensor.host_is_newer) {
      const std::lock_guard lock(tensor.host);
      check_data(slot, type, tensor.given(), backend_);
      copy(*slot.input, slot.input->bound, type, tensor.given());
      tensor.host_is_newer = false;
      written_gradients_.insert(slot.tensor.get());
    }
    if (!written_gradients_.contains(slot.tensor.get())) {
      throw InvalidArgument("[execute_gradient] expected " + slot.name +
                            " to be written since the last execute_forward but it was not");
    }
    job.bound.push_back(bound(slot, job, slot.input->bound));
  }
}

}  // namespace traingraph
