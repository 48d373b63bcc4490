// Data in and out: what a call binds, what it delivers, what stays readable after it.
#include "graph/executor_job.h"

#include <algorithm>
#include <cstring>

#include <traingraph/errors.h>

#include "graph/data_binding.h"
#include "runtime/layout_copy.h"

namespace traingraph {

using ir::kNone;
using ir::ValueId;

void Executor::bind_group(const NamedData& data, const NamedTensors& declared, const char* what,
                          const CompiledGraph& graph) {
  for (const auto& [name, array] : data) {
    const TensorPtr* tensor = find(declared, name);
    if (tensor == nullptr) {
      throw InvalidArgument(std::string("[execute] expected ") + what + " of " +
                            names_of(declared) + " but got '" + name + "'");
    }
    for (const BoundSlot& slot : graph.bound) {
      if (slot.tensor != *tensor) continue;
      if (slot.value == kNone) continue;
      const ir::Type& type = graph.program->graph.type(slot.value);
      check_data(slot, type, array);
      check_classes(slot, type, array);
      given_[slot.tensor.get()] = calls_;
      const auto address = reinterpret_cast<std::uintptr_t>(array.bytes);
      if (address % element_bytes(type.data_type) != 0) {
        stage(*slot.tensor, type, array);
        continue;
      }
      data_[slot.tensor.get()] = array;
      staged_bytes_.erase(slot.tensor.get());
    }
  }
}

void Executor::stage(const Tensor& tensor, const ir::Type& type, const TensorData& data) {
  const std::size_t bytes = ir::storage_bytes(type, {});
  TensorData copy = data;
  if (backend_.computes()) {
    const std::shared_ptr<std::byte> memory = backend_.allocate(bytes);
    std::memcpy(memory.get(), data.bytes, bytes);
    copy.bytes = memory.get();
    copy.owner = memory;
    staged_bytes_[&tensor] = bytes;
  }
  copy.length = bytes;
  copy.data_type = type.data_type;
  copy.shape = type.shape;
  data_[&tensor] = std::move(copy);
}

void Executor::bind_inputs(Job& job, const ExecutionArguments& arguments) {
  const CompiledGraph& graph = *job.graph;
  const bool skips = has(arguments.options, ExecutionOptions::kSkipWritingInputDataToDevice);
  ++calls_;
  if (!skips) {
    bind_group(arguments.inputs, graph_.inputs, "inputs", graph);
    bind_group(arguments.loss_labels, graph_.loss_labels, "loss labels", graph);
    bind_group(arguments.loss_label_weights, graph_.loss_label_weights, "loss label weights",
               graph);
  }
  // The separate forward of a training graph has no data of its own.
  const bool names_data =
      !skips && (job.run == Run::step || !graph_.training || !arguments.inputs.empty());
  std::string missing;
  for (const BoundSlot& slot : graph.bound) {
    if (slot.value == kNone) continue;
    auto found = data_.find(slot.tensor.get());
    if (found == data_.end() && slot.tensor->data().bytes != nullptr) {
      found = data_.emplace(slot.tensor.get(), slot.tensor->data()).first;
    }
    // What an earlier call was given serves this one only when it says so.
    const auto given = given_.find(slot.tensor.get());
    const bool stale = names_data && given != given_.end() && given->second != calls_;
    if (found == data_.end() || stale) {
      missing += (missing.empty() ? "'" : ", '") + slot.name + "'";
      continue;
    }
    // Data of an earlier call may be of another batch.
    check_data(slot, graph.program->graph.type(slot.value), found->second);
    job.bound.emplace_back(slot.value, found->second);
  }
  if (!missing.empty()) {
    throw InvalidArgument("[execute] expected data for " + missing + " but none was given");
  }
}

void Executor::bind_outputs(Job& job, const ExecutionArguments& arguments) const {
  for (const auto& [name, array] : arguments.outputs) {
    const TensorPtr* tensor = find(graph_.outputs, name);
    if (tensor == nullptr) {
      throw InvalidArgument("[execute] expected outputs of " + names_of(graph_.outputs) +
                            " but got '" + name + "'");
    }
    if (job.run == Run::gradient || job.run == Run::update) {
      throw InvalidArgument("[execute] output '" + name + "' is written by the forward pass");
    }
    const ValueId value = job.graph->tensors.at(tensor->get());
    check_output(name, job.graph->program->graph.type(value), array);
    job.outputs.emplace_back(value, array);
  }
}

// Whether executions are fed this tensor.
bool Executor::reads(const Tensor* tensor) const {
  const auto feeds = [&](const BoundSlot& slot) { return slot.tensor.get() == tensor; };
  return std::any_of(programs_.begin(), programs_.end(), [&](const CompiledPtr& program) {
    return std::any_of(program->bound.begin(), program->bound.end(), feeds);
  });
}

// Whether axis 0 of the tensor is the batch.
bool Executor::declares(const Tensor* tensor) const {
  for (const auto* group : {&graph_.inputs, &graph_.loss_labels, &graph_.loss_label_weights}) {
    for (const auto& [name, declared] : *group) {
      if (declared.get() == tensor) return true;
    }
  }
  return false;
}

void Executor::take_data(Executor& earlier) {
  const std::scoped_lock lock(mutex_, earlier.mutex_);
  data_ = earlier.data_;
  staged_bytes_ = earlier.staged_bytes_;
  given_ = earlier.given_;
  calls_ = earlier.calls_;
}

void Executor::bind(const NamedData& data, const NamedTensors& tensors, std::int64_t batch) {
  if (batch == 0) batch = declared_batch(graph_);
  for (const auto& [name, array] : data) {
    const TensorPtr* tensor = traingraph::find(tensors, name);
    if (tensor == nullptr) {
      throw InvalidArgument("[bind_and_write_data] expected names of " + names_of(tensors) +
                            " but got '" + name + "'");
    }
    BoundSlot slot{name, *tensor, kNone, 0};
    ir::Type type{(*tensor)->descriptor().data_type, (*tensor)->descriptor().shape, false};
    const std::lock_guard lock(mutex_);
    if (!reads(tensor->get())) {
      throw InvalidArgument("[bind_and_write_data] expected an input of this graph but got '" +
                            (*tensor)->label() + "' for '" + name +
                            "'; a parameter is written by its tensor's own method");
    }
    if (batch != 0 && declares(tensor->get())) type.shape[0] = batch;
    check_data(slot, type, array);
    given_.erase(tensor->get());
    stage(**tensor, type, array);
  }
}

TensorData Executor::copy_out(const CompiledGraph& graph, Run run, ValueId value) const {
  const ir::Value& v = graph.program->graph.value(value);
  TensorData data;
  const std::size_t bytes = ir::storage_bytes(v.type, {});
  const std::shared_ptr<std::byte[]> memory(new std::byte[bytes]());
  data.bytes = memory.get();
  data.length = bytes;
  data.data_type = v.type.data_type;
  data.shape = v.type.shape;
  data.owner = std::shared_ptr<const void>(memory, memory.get());
  const std::byte* from = graph.program->address(run, value);
  // Without memory behind the plan an address is an offset.
  if (from != nullptr && backend_.computes()) {
    copy_between_layouts(v.type, v.layout, from, {}, memory.get());
  }
  return data;
}

void Executor::deliver(const Job& job) {
  const CompiledGraph& graph = *job.graph;
  const ir::Graph& ops = graph.program->graph;
  for (const auto& [value, data] : job.outputs) {
    const std::byte* from = graph.program->address(job.run, value);
    if (from == nullptr || !backend_.computes()) continue;
    copy_between_layouts(ops.type(value), ops.value(value).layout, from, {},
                         static_cast<std::byte*>(data.bytes));
  }
  if (job.run == Run::gradient || job.run == Run::update) return;
  job.state->result = copy_out(graph, job.run, graph.result);
  if (!job.handler) return;
  // The handler may read the result tensor's host copy; a smaller batch fills its first rows.
  Tensor& tensor = *graph.result_tensor;
  if (tensor.data().bytes == nullptr) {
    const TensorDescriptor& d = tensor.descriptor();
    const std::vector<std::byte> zeros(d.allocation_bytes());
    tensor.state().data = TensorData::copy_of(zeros.data(), zeros.size(), d.data_type, d.shape);
  }
  std::memcpy(tensor.data().bytes, job.state->result.bytes,
              std::min(tensor.data().length, job.state->result.length));
}

void Executor::read(const Tensor& tensor, void* bytes, std::size_t length) {
  stream_->run([&] {
    const std::string subject = "[tensor '" + tensor.label() + "'] ";
    if (forward_ == nullptr) {
      throw InvalidArgument(subject + "no forward pass has computed it, or its memory was reused");
    }
    const auto found = forward_->tensors.find(&tensor);
    const bool known = found != forward_->tensors.end() && found->second != kNone;
    const ir::Graph& ops = forward_->program->graph;
    const bool bound = known && ops.value(found->second).source != ir::Source::node;
    if (!known || (!bound && !ops.value(found->second).keep)) {
      throw InvalidArgument(subject +
                            "is not readable: its memory is reused; declare it with add_outputs");
    }
    const TensorData data = copy_out(*forward_, forward_run_, found->second);
    std::memcpy(bytes, data.bytes, std::min(length, data.length));
  });
}

TensorData Executor::gradient(const Tensor& parameter) const {
  TensorData result;
  stream_->run([&] {
    const std::string subject = "[gradient of '" + parameter.label() + "'] ";
    if (gradient_ == nullptr) {
      throw InvalidArgument(subject + "expected a separate execute_gradient before reading it");
    }
    const auto found = gradient_->gradients.find(&parameter);
    if (found == gradient_->gradients.end() || found->second == kNone) {
      throw InvalidArgument(subject + "is not computed: the parameter is frozen or nothing flows");
    }
    result = copy_out(*gradient_, Run::gradient, found->second);
    result.shape = parameter.descriptor().shape;
  });
  return result;
}

void Executor::synchronize_parameters() {
  std::vector<TensorPtr> tensors;
  {
    const std::lock_guard lock(mutex_);
    for (const CompiledPtr& program : programs_) {
      for (const LoweredGraph::Slot& slot : program->slots) {
        if (slot.buffer.empty() &&
            std::find(tensors.begin(), tensors.end(), slot.tensor) == tensors.end()) {
          tensors.push_back(slot.tensor);
        }
      }
    }
  }
  for (const TensorPtr& tensor : tensors) tensor->synchronize_data();
}

}  // namespace traingraph
