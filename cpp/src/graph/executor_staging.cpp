// Data on its way to the device: copies of what cannot be used in place, and the slots of a device
// with memory of its own.
#include <algorithm>
#include <cstring>

#include <traingraph/errors.h>

#include "graph/data_binding.h"
#include "graph/executor_job.h"

namespace traingraph {

using ir::kNone;

void Executor::give(const Tensor& tensor, TensorData data) {
  data_[&tensor] = {std::move(data), ++versions_, 0};
}

void Executor::stage(const Tensor& tensor, const ir::Type& type, const TensorData& data) {
  const std::size_t bytes = ir::storage_bytes(type, {});
  if (!backend_.uses_host_memory()) {
    give(tensor, TensorData::copy_of(data.bytes, bytes, type.data_type, type.shape));
    return;
  }
  TensorData copy = data;
  if (backend_.computes()) {
    const std::shared_ptr<std::byte> memory = staging_for(tensor, bytes);
    std::memcpy(memory.get(), data.bytes, bytes);
    copy.bytes = memory.get();
    copy.owner = memory;
  }
  copy.length = bytes;
  copy.data_type = type.data_type;
  copy.shape = type.shape;
  give(tensor, std::move(copy));
}

BoundArray Executor::bound_array(const BoundSlot& slot, const ir::Type& type,
                                 const GivenData& given) {
  BoundArray array{slot.value, static_cast<std::byte*>(given.data.bytes), given.data.owner};
  if (backend_.uses_host_memory()) return array;
  array.slot = &device_slots_.at(slot.tensor.get());
  array.bytes = ir::storage_bytes(type, {});
  array.version = given.version;
  return array;
}

void Executor::place_slots(CompiledGraph& graph) {
  if (backend_.uses_host_memory()) return;
  for (const BoundSlot& bound : graph.bound) {
    const bool given =
        bound.from == BoundSlot::From::caller || bound.from == BoundSlot::From::user_gradient;
    if (bound.value == kNone || !given) continue;
    const std::size_t bytes = ir::storage_bytes(graph.program->graph.type(bound.value), {});
    DeviceSlot& slot = device_slots_[bound.tensor.get()];
    if (slot.capacity < bytes) {
      const std::shared_ptr<std::byte> memory = backend_.allocate(bytes);
      if (slot.memory != nullptr) backend_.copy(memory.get(), slot.memory.get(), slot.capacity);
      slot.memory = memory;
      slot.capacity = bytes;
    }
  }
}

std::byte* Executor::placed(const BoundArray& array) const {
  if (array.slot == nullptr) return array.address;
  DeviceSlot& slot = *array.slot;
  if (slot.version != array.version) {
    slot.version = 0;
    backend_.write(slot.memory.get(), array.address, array.bytes);
    slot.version = array.version;
  }
  return slot.memory.get();
}

// Memory of an earlier copy that nothing reads any more, else new memory.
std::shared_ptr<std::byte> Executor::staging_for(const Tensor& tensor, std::size_t bytes) {
  data_.erase(&tensor);
  std::vector<StagedCopy>& copies = staged_[&tensor];
  std::erase_if(copies, [&](const StagedCopy& copy) {
    return copy.memory.use_count() == 1 && copy.bytes != bytes;
  });
  for (const StagedCopy& copy : copies) {
    if (copy.memory.use_count() == 1) return copy.memory;
  }
  copies.push_back({backend_.allocate(bytes), bytes});
  return copies.back().memory;
}

void Executor::bind(const NamedData& data, const NamedTensors& tensors, std::int64_t batch) {
  if (batch == 0) batch = declared_batch_;
  for (const auto& [name, array] : data) {
    const TensorPtr* tensor = traingraph::find(tensors, name);
    if (tensor == nullptr) {
      throw InvalidArgument("[bind_and_write_data] expected names of " + names_of(tensors) +
                            " but got '" + name + "'");
    }
    const std::lock_guard lock(mutex_);
    const BoundSlot slot{name, *tensor, kNone, {}};
    ir::Type type{(*tensor)->descriptor().data_type, (*tensor)->descriptor().shape, false};
    if (batch != 0 && has_batch(**tensor)) type.shape[0] = batch;
    check_data(slot, type, array);
    for (const CompiledPtr& program : programs_) {
      for (const BoundSlot& known : program->bound) {
        if (known.tensor == *tensor) check_range(name, known.range, type, array.bytes);
      }
    }
    stage(**tensor, type, array);
    written_gradients_.insert(tensor->get());
  }
}

void Executor::take_over(Executor& before) {
  before.stream_->run([&] {
    const std::lock_guard lock(before.mutex_);
    data_ = std::move(before.data_);
    versions_ = before.versions_;
    calls_ = before.calls_;
    staged_ = std::move(before.staged_);
    for (auto& [tensor, old] : before.device_slots_) {
      DeviceSlot& slot = device_slots_[tensor];
      if (slot.capacity <= old.capacity) {
        slot = std::move(old);
      } else {
        backend_.copy(slot.memory.get(), old.memory.get(), old.capacity);
        slot.version = old.version;
      }
    }
  });
}

// Whether axis 0 of what is bound to this tensor is the batch.
bool Executor::has_batch(const Tensor& tensor) const {
  for (const CompiledPtr& program : programs_) {
    for (const BoundSlot& slot : program->bound) {
      if (slot.tensor.get() == &tensor && slot.value != kNone) {
        return program->program->graph.type(slot.value).batched;
      }
    }
  }
  throw InvalidArgument(
      "[bind_and_write_data] expected an input, label or user gradient of this "
      "graph but got tensor '" +
      tensor.label() + "'");
}

void Executor::send_step_numbers(const CompiledGraph& graph) {
  const bool same =
      std::all_of(graph.step_inputs.begin(), graph.step_inputs.end(), [&](ir::StepInput input) {
        const auto at = static_cast<std::size_t>(input) * 8;
        return std::memcmp(step_block_ + at, sent_step_block_ + at, 8) == 0;
      });
  if (same) return;
  backend_.write(device_step_block_.get(), step_block_, kStepBlockBytes);
  std::memcpy(sent_step_block_, step_block_, kStepBlockBytes);
}

}  // namespace traingraph
