// Data in and out: what a call binds, what it delivers, what stays readable after it.
#include "graph/executor_job.h"

#include <algorithm>
#include <cstring>

#include <traingraph/errors.h>

#include "graph/data_binding.h"
#include "runtime/transfer.h"

namespace traingraph {

using ir::kNone;
using ir::ValueId;

void Executor::bind_group(const NamedData& data, const NamedTensors& declared, const char* what,
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
      if (slot.tensor != *tensor) continue;
      if (slot.value == kNone) continue;
      const ir::Type& type = graph.program->graph.type(slot.value);
      check_data(slot, type, array, backend_);
      check_range(slot.name, slot.range, type, array);
      const auto before = data_.find(slot.tensor.get());
      if (before != data_.end() && before->second.call == calls_) {
        throw InvalidArgument(std::string("[execute] expected data once for each tensor but ") +
                              what + " '" + name + "' is the second name of one");
      }
      const auto address = reinterpret_cast<std::uintptr_t>(array.bytes);
      const bool aligned = address % element_bytes(type.data_type) == 0;
      if (backend_.uses_host_memory() && !aligned) {
        stage(*slot.tensor, type, array);
      } else {
        give(*slot.tensor, array);
        staging_.drop_copies(*slot.tensor);
      }
      data_[slot.tensor.get()].call = calls_;
    }
  }
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
    if (slot.value == kNone || slot.is_gradient()) continue;
    if (slot.from == BoundSlot::From::linked_value) {
      bind_exchange(job, slot);
      continue;
    }
    auto found = data_.find(slot.tensor.get());
    if (found == data_.end() && slot.tensor->state().given().bytes != nullptr) {
      const TensorData& own = slot.tensor->state().given();
      const ir::Type& type = graph.program->graph.type(slot.value);
      check_data(slot, type, own, backend_);
      check_range(slot.name, slot.range, type, own);
      give(*slot.tensor, own);
      found = data_.find(slot.tensor.get());
    }
    // What an earlier call was given serves this one only when it says so.
    const bool missed = found == data_.end();
    if (missed || (names_data && found->second.call != 0 && found->second.call != calls_)) {
      missing += (missing.empty() ? "'" : ", '") + slot.name + "'";
      continue;
    }
    // Data of an earlier call may be of another batch.
    const ir::Type& type = graph.program->graph.type(slot.value);
    check_data(slot, type, found->second.data, backend_);
    job.bound.push_back(staging_.bound(slot.value, *slot.tensor, type, found->second));
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

void Executor::bind_gradients(Job& job) {
  const CompiledGraph& graph = *job.graph;
  for (const BoundSlot& slot : graph.bound) {
    if (slot.value == kNone || !slot.is_gradient()) continue;
    if (slot.from == BoundSlot::From::linked_gradient) {
      bind_exchange(job, slot);
      continue;
    }
    const ir::Type& type = graph.program->graph.type(slot.value);
    TensorState& tensor = slot.tensor->state();
    if (tensor.host_is_newer) {
      check_data(slot, type, tensor.given(), backend_);
      stage(*slot.tensor, type, tensor.given());
      tensor.host_is_newer = false;
      written_gradients_.insert(slot.tensor.get());
    }
    if (!written_gradients_.contains(slot.tensor.get())) {
      throw InvalidArgument("[execute_gradient] expected " + slot.name +
                            " to be written since the last execute_forward but it was not");
    }
    const GivenData& given = data_.at(slot.tensor.get());
    check_data(slot, type, given.data, backend_);
    job.bound.push_back(staging_.bound(slot.value, *slot.tensor, type, given));
  }
}

void Executor::bind_outputs(Job& job, const ExecutionArguments& arguments) const {
  for (const auto& [name, array] : arguments.outputs) {
    const TensorPtr* tensor = find(graph_.outputs, name);
    if (tensor == nullptr || !writes(job, **tensor)) {
      throw InvalidArgument("[execute] expected outputs of " + outputs_of(job) + " but got '" +
                            name + "'");
    }
    const TensorPtr of = graph_.differentiated(tensor->get());
    const ValueId value =
        of != nullptr ? job.graph->gradients.at(of.get()) : job.graph->tensors.at(tensor->get());
    check_output(name, job.graph->program->graph.type(value), array, backend_);
    job.outputs.emplace_back(value, array);
  }
}

bool Executor::writes(const Job& job, const Tensor& output) const {
  if (graph_.differentiated(&output) == nullptr) return runs_forward(job.run);
  return runs_gradient(job.run) && job.graph->mode == Mode::training;
}

std::string Executor::outputs_of(const Job& job) const {
  NamedTensors written;
  for (const auto& [name, tensor] : graph_.outputs) {
    if (writes(job, *tensor)) written.emplace_back(name, tensor);
  }
  return names_of(written);
}

// Zeroed host memory for a dense array of this type.
TensorData Executor::host_array(const ir::Type& type) {
  TensorData data;
  const std::size_t bytes = ir::storage_bytes(type, {});
  const std::shared_ptr<std::byte[]> memory(new std::byte[bytes]());
  data.bytes = memory.get();
  data.length = bytes;
  data.data_type = type.data_type;
  data.shape = type.shape;
  data.owner = std::shared_ptr<const void>(memory, memory.get());
  return data;
}

TensorData Executor::copy_out(const CompiledGraph& graph, Run run, ValueId value) const {
  const ir::Value& v = graph.program->graph.value(value);
  TensorData data = host_array(v.type);
  const std::byte* from = graph.program->address(run, value);
  // Without memory behind the plan an address is an offset.
  if (from != nullptr && backend_.computes()) {
    download(backend_, v.type, v.layout, from, static_cast<std::byte*>(data.bytes));
  }
  return data;
}

// Begins to read the result; whether it could.
bool Executor::leave_result(Job& job) const {
  const ir::Value& result = job.graph->program->graph.value(job.graph->result);
  const std::byte* from = job.graph->program->address(job.run, job.graph->result);
  if (!job.leaves || from == nullptr || !result.layout.plain()) return false;
  TensorData data = host_array(result.type);
  job.pending = backend_.read_later(from, data.length);
  if (job.pending == nullptr) return false;
  job.state->result = std::move(data);
  return true;
}

void Executor::deliver(Job& job) {
  const CompiledGraph& graph = *job.graph;
  const ir::Graph& ops = graph.program->graph;
  TensorData result;  // an array on the device that has it already
  bool device_written = false;
  for (const auto& [value, data] : job.outputs) {
    const std::byte* from = graph.program->address(job.run, value);
    if (from == nullptr || !backend_.computes()) continue;
    const ir::Type& type = ops.type(value);
    if (data.gpu < 0) {
      download(backend_, type, ops.value(value).layout, from, data.bytes);
      continue;
    }
    convert(backend_, type, ops.value(value).layout, from, {}, static_cast<std::byte*>(data.bytes));
    device_written = true;
    if (value != graph.result) continue;
    result = data;
    result.length = ir::storage_bytes(type, {});
    result.data_type = type.data_type;
    result.shape = type.shape;
  }
  write_exchanges(job);
  // Whoever waits for the execution reads these on streams of their own.
  if (device_written) backend_.finish();
  if (!runs_forward(job.run) || leave_result(job)) return;
  job.state->result =
      result.bytes != nullptr && !job.handler ? result : copy_out(graph, job.run, graph.result);
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
    const TensorData data = copy_out(kept(tensor));
    std::memcpy(bytes, data.bytes, std::min(length, data.length));
  });
}

Executor::Kept Executor::kept(const Tensor& tensor) const {
  const auto handle = handles_.find(&tensor);
  return handle != handles_.end() ? kept_gradient(*handle->second) : kept_result(tensor);
}

TensorData Executor::view(const Tensor& tensor) {
  TensorData data;
  stream_->run([&] {
    const Kept found = kept(tensor);
    const ir::Value& value = found.graph->program->graph.value(found.value);
    if (!value.layout.plain()) {
      throw Unsupported("[tensor '" + tensor.label() + "'] expected a dense row-major value but " +
                        backend_.name() + " keeps it as " + ir::to_string(value.layout) +
                        "; read it with copy_data_from_device_memory");
    }
    data.bytes = const_cast<std::byte*>(found.graph->program->address(found.run, found.value));
    data.length = ir::storage_bytes(value.type, {});
    data.data_type = value.type.data_type;
    data.shape = value.type.shape;
    data.writable = false;
    data.gpu = backend_.gpu();
    data.owner = keeper_of(found);
  });
  return data;
}

// What holds the memory of a value: the arena, or the array that was given for it.
std::shared_ptr<const void> Executor::keeper_of(const Kept& kept) const {
  const ir::ValueId root = kept.graph->program->roots[static_cast<std::size_t>(kept.value)];
  for (const std::vector<BoundArray>* arrays : {&forward_arrays_, &gradient_arrays_}) {
    for (const BoundArray& array : *arrays) {
      if (array.value != root) continue;
      if (array.slot == nullptr) return array.owner;
      using Both = std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>;
      return std::make_shared<const Both>(array.owner, array.slot->memory);
    }
  }
  return arena_;
}

Executor::Kept Executor::kept_result(const Tensor& tensor) const {
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
  return {forward_.get(), forward_run_, found->second};
}

std::pair<TensorData, TensorData> Executor::scored() const {
  std::pair<TensorData, TensorData> result;
  stream_->run([&] {
    if (forward_ == nullptr || forward_->prediction == nullptr) {
      throw InvalidArgument("[evaluate] expected a graph with a loss");
    }
    result = {copy_out(kept_result(*forward_->prediction)),
              copy_out(kept_result(*forward_->label))};
  });
  return result;
}

Executor::Kept Executor::kept_gradient(const Tensor& of) const {
  const std::string subject = "[gradient of '" + of.label() + "'] ";
  if (gradient_ == nullptr) {
    throw InvalidArgument(subject + "expected a gradient pass before reading it");
  }
  const auto found = gradient_->gradients.find(&of);
  if (found == gradient_->gradients.end() || found->second == kNone) {
    throw InvalidArgument(
        subject +
        "is not computed: the parameter is frozen, nothing flows there, or it was not asked for "
        "(gradients of inputs need COMPUTE_ALL_GRADIENTS, others add_outputs)");
  }
  const ir::Value& value = gradient_->program->graph.value(found->second);
  if (gradient_run_ == Run::step && !value.keep && value.writes == kNone) {
    throw InvalidArgument(subject +
                          "is not readable after a full execute: its memory is reused; use "
                          "execute_gradient or declare it with add_outputs");
  }
  return {gradient_.get(), gradient_run_, found->second};
}

TensorData Executor::gradient(const Tensor& tensor) const {
  TensorData result;
  stream_->run([&] { result = copy_out(kept_gradient(tensor)); });
  if (element_count(result.shape) == element_count(tensor.descriptor().shape)) {
    result.shape = tensor.descriptor().shape;
  }
  return result;
}

void Executor::read_through(const GradientHandle& handle) {
  stream_->run([&] { handles_[handle.gradient.get()] = handle.of.get(); });
  handle.gradient->state().reader = weak_from_this();
  handle.gradient->state().device = graph_.device;
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
