// Puts the values of a checkpoint into tensors, their device's memory, optimizers and graphs.
#include "graph/checkpoint/replaced_state.h"

#include <cstring>
#include <utility>

#include <traingraph/errors.h>

#include "graph/lowering/loss_scaling.h"
#include "graph/run/executor.h"
#include "graph/run/update_count.h"
#include "runtime/memory/parameter_store.h"

namespace traingraph {
namespace {

// Into the memory that the tensor already has, which may be the caller's, and on to the device.
void replace_data(Tensor& tensor, const TensorData& data) {
  TensorState& state = tensor.state();
  std::unique_lock lock(state.host);
  std::memcpy(state.data.bytes, data.bytes, data.length);
  state.device_data = {};
  ++state.writes;
  state.host_is_newer = true;
  lock.unlock();
  if (state.parameter == nullptr) return;
  state.parameter->stream->run([&] { upload_if_newer(tensor); });
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

// Buffers that the file does not have are those of a parameter that was never updated: zeros.
void replace_buffers(const Contents& contents, const Values& values) {
  for (const NamedTensors* group : {&contents.updated, &contents.resting}) {
    for (const auto& [name, tensor] : *group) {
      const bool there = values.any_slot_of(name, contents.slots);
      if (!there && !has_optimizer_data(*tensor, contents.slots)) continue;
      const TensorDescriptor& d = tensor->descriptor();
      std::vector<TensorData> buffers;
      for (const std::string& slot : contents.slots) {
        buffers.push_back(there ? values.at(slot_name(name, slot))
                                : TensorData::copy_of(nullptr, 0, d.data_type, d.shape));
      }
      replace_optimizer_data(*tensor, std::move(buffers), contents.slots);
    }
  }
}

void replace_begun_step(const Contents& contents, const Values& values, GraphState& state) {
  if (!values.has_begun_step()) return;
  BegunStep begun{
      values.number(kMicroBatches), values.number(kSummed), values.number(kSummedRows), {}};
  for (const auto& [name, tensor] : contents.summed) {
    begun.sums.emplace_back(tensor, values.at(sum_name(name)));
  }
  if (state.newest_executor() != nullptr) begun.taken_at = state.snapshot()->changes;
  state.resumed->set(std::make_shared<const BegunStep>(std::move(begun)));
}

}  // namespace

void make_host_copy(Tensor& tensor) {
  if (tensor.data().bytes != nullptr) return;
  const TensorDescriptor& d = tensor.descriptor();
  tensor.state().data = TensorData::copy_of(nullptr, 0, d.data_type, d.shape);
}

void replace_parameter(GraphState& state, const TensorPtr& tensor, const TensorData& data) {
  replace_data(*tensor, data);
  const std::lock_guard lock(structure());
  if (state.constants.contains(tensor)) ++state.changes;  // folded: compile anew
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
    UpdateCount::set_time_step(*state.snapshot()->optimizer, value);
  } else if (const auto seed = static_cast<std::uint64_t>(value); seed != state.random_seed) {
    // Seeds are compiled in.
    const std::lock_guard lock(structure());
    state.random_seed = seed;
    ++state.changes;
  }
}

void give_up_step(bool has_begun_step, const std::string& source, GraphState& state) {
  const std::shared_ptr<Executor> executor = state.newest_executor();
  if (executor != nullptr && !executor->give_up_step(has_begun_step)) {
    throw InvalidArgument("[load] expected no later step in flight, because " + source +
                          " was saved between the micro-batches of one");
  }
  state.resumed->set(nullptr);
}

void replace_state(const Contents& contents, const Values& values, GraphState& state) {
  if (state.training) give_up_step(values.has_begun_step(), values.source, state);
  state.fit_place->set(nullptr);
  for (const auto& [name, tensor] : contents.parameters) {
    replace_parameter(state, tensor, values.at(name));
  }
  replace_scaling(contents, values);
  replace_buffers(contents, values);
  for (const std::string& name : contents.numbers) replace_number(state, name, values.number(name));
  if (state.training) replace_begun_step(contents, values, state);
}

}  // namespace traingraph
