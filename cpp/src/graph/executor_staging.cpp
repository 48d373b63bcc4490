// What the caller binds between executions, and what becomes of it.
#include <algorithm>

#include <traingraph/errors.h>

#include "graph/data_binding.h"
#include "graph/executor_job.h"

namespace traingraph {

using ir::kNone;
using ir::ValueId;

void Executor::give(const Tensor& tensor, TensorData data) {
  data_[&tensor] = {std::move(data), ++versions_, 0};
}

// Of data that the caller may change; arrays on the device are used where they lie.
void Executor::stage(const Tensor& tensor, const ir::Type& type, const TensorData& data) {
  if (data.gpu >= 0) return give(tensor, data);
  data_.erase(&tensor);
  give(tensor, staging_.copy_of(tensor, type, data));
}

bool Executor::uses(const CompiledGraph& graph, const BoundArray& array) const {
  auto overlaps = [&](const std::byte* first, std::size_t bytes) {
    return array.address < first + bytes && first < array.address + array.bytes;
  };
  if (overlaps(arena_.get(), arena_bytes_)) return true;
  const Program& program = *graph.program;
  return std::any_of(graph.slot_values.begin(), graph.slot_values.end(), [&](ValueId value) {
    const ir::Value& parameter = program.graph.value(value);
    return overlaps(program.address(Run::step, value),
                    ir::storage_bytes(parameter.type, parameter.layout));
  });
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
    check_data(slot, type, array, backend_);
    for (const CompiledPtr& program : programs_) {
      for (const BoundSlot& known : program->bound) {
        if (known.tensor == *tensor) check_range(name, known.range, type, array);
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
    staging_.take_over(before.staging_);
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

}  // namespace traingraph
