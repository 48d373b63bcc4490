// Delivers results of a run: to the caller's arrays, to the handle, and to the host copy, at once
// or by a late read.
#include "graph/run/outputs.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <traingraph/errors.h>

#include "graph/data/data_binding.h"
#include "graph/lowering/check_integers.h"
#include "runtime/device_memory.h"
#include "runtime/memory/transfer.h"

namespace traingraph {
namespace {

// Whether the job's run computes this declared output.
bool writes(const GraphState& state, const Job& job, const Tensor& output) {
  if (state.differentiated(&output) == nullptr) return runs_forward(job.run);
  return runs_gradient(job.run) && job.graph->mode == Mode::training;
}

// Names of the outputs that it does.
std::string outputs_of(const GraphState& state, const Job& job) {
  NamedTensors written;
  for (const auto& [name, tensor] : state.outputs) {
    if (writes(state, job, *tensor)) written.emplace_back(name, tensor);
  }
  return names_of(written);
}

// To the arrays that were given for outputs. Returns the one on the device that has the result now,
// or no data.
TensorData write_outputs(const Backend& backend, const Job& job) {
  const CompiledGraph& graph = *job.graph;
  TensorData result;
  bool device_written = false;
  for (const auto& [value, data] : job.outputs) {
    const std::byte* from = graph.program->address(job.run, value);
    if (from == nullptr || !backend.traits().computes) continue;
    const LeftValue left{graph, job.run, value, job.rows};
    if (data.gpu < 0) {
      copy_out(backend, left, data);
      continue;
    }
    copy_within(backend, left, static_cast<std::byte*>(data.bytes));
    device_written = true;
    if (value != graph.result) continue;
    const ir::Type type = graph.type(value, job.rows);
    result = data;
    result.length = ir::storage_bytes(type, {});
    result.data_type = type.data_type;
    result.shape = type.shape;
  }
  // Whoever waits for the execution reads these on streams of their own.
  if (device_written) finish_work(backend);
  return result;
}

// Begins to read the result with begin(from, bytes), where it can be read as it lies.
template <class Begin>
void begin_result(Job& job, const Begin& begin) {
  const ir::Value& result = job.graph->program->graph.value(job.graph->result);
  const std::byte* from = job.graph->program->address(job.run, job.graph->result);
  if (from == nullptr || !result.layout.plain()) return;
  job.pending = begin(from, ir::storage_bytes(job.graph->type(job.graph->result, job.rows), {}));
}

using Outside = std::array<std::int64_t, 3>;  // check, position, value

void raise_outside(const Job& job, const Outside& found) {
  if (found[0] < 0) return;
  const IndexCheck& check = job.graph->index_checks.at(static_cast<std::size_t>(found[0]));
  refuse_integer(check.name, check.range, place_in(check.type, found[1], job.samples), found[2]);
}

// Raises where indices were outside, or begins to read whether some were.
void look_at_indices(const Backend& backend, Job& job) {
  if (job.graph->outside == ir::kNone || !backend.traits().computes) return;
  const std::byte* const from = job.graph->program->address(job.run, job.graph->outside);
  if (job.defers_result) job.outside = read_memory_later(backend, from, sizeof(Outside));
  if (job.outside != nullptr) return;
  Outside found{};
  read_memory(backend, found.data(), from, sizeof found);
  raise_outside(job, found);
}

void make_host_copy(Tensor& tensor) {
  const std::lock_guard lock(tensor.state().host);
  if (tensor.data().bytes != nullptr) return;
  const TensorDescriptor& d = tensor.descriptor();
  tensor.state().data = TensorData::copy_of(nullptr, 0, d.data_type, d.shape);
}

// The handler may read the result tensor's host copy; a smaller batch fills its first rows.
void fill_host_copy(Tensor& tensor, const TensorData& result) {
  const std::lock_guard lock(tensor.state().host);
  if (tensor.data().bytes == nullptr) return;  // another graph over it has dropped it
  std::memcpy(tensor.data().bytes, result.bytes, std::min(tensor.data().length, result.length));
}

// Whether the result may stay where it is: only the next forward pass overwrites it, and a copy
// would take longer than what comes with one that is put off.
bool may_stay(const Backend& backend, const Job& job) {
  constexpr std::size_t kLarge = std::size_t{64} << 10;
  if (!uses_host_memory(backend) || !backend.traits().computes) return false;
  if (job.run != Run::forward || job.handler || job.state->result.length < kLarge) return false;
  const Program& program = *job.graph->program;
  const ir::ValueId result = job.graph->result;
  const ir::Value& value = program.graph.value(result);
  const ir::Value& root = program.graph.value(program.roots[static_cast<std::size_t>(result)]);
  const bool rows_lie_first = job.rows == job.graph->batch || value.layout.plain();
  return value.keep && rows_lie_first && root.source == ir::Source::node &&
         root.writes == ir::kNone;
}

}  // namespace

void bind_outputs(const GraphState& state, const Backend& backend, const NamedData& outputs,
                  Job& job) {
  for (const auto& [name, array] : outputs) {
    const TensorPtr* tensor = find(state.outputs, name);
    if (tensor == nullptr || !writes(state, job, **tensor)) {
      throw InvalidArgument("[execute] expected outputs of " + outputs_of(state, job) +
                            " but got '" + name + "'");
    }
    const TensorPtr of = state.differentiated(tensor->get());
    const ir::ValueId value =
        of != nullptr ? job.graph->gradients.at(of.get()) : job.graph->tensors.at(tensor->get());
    check_output(name, job.graph->type(value, job.rows), array, backend);
    job.outputs.emplace_back(value, array);
  }
}

void make_room_for_result(Job& job) {
  const auto takes_result = [&](const auto& output) {
    return output.first == job.graph->result && output.second.gpu >= 0;
  };
  const bool is_elsewhere =
      !job.handler && std::any_of(job.outputs.begin(), job.outputs.end(), takes_result);
  if (!runs_forward(job.run) || is_elsewhere) return;
  job.state->result = host_array(job.graph->type(job.graph->result, job.rows));
  if (job.handler) make_host_copy(*job.graph->result_tensor);
}

void carry_result(Job& job) {
  begin_result(job, [&](const std::byte* from, std::size_t bytes) {
    return job.graph->program->executable->carry_out(from, bytes);
  });
}

TensorPtr handed_result(const Job& job) {
  const TensorPtr& usual = job.graph->result_tensor;
  const TensorData& result = job.state->result;
  if (!job.graph->result_has_batch || result.shape == usual->descriptor().shape) return usual;
  TensorPtr own = Tensor::create(
      {result.shape, result.data_type},
      TensorData::copy_of(result.bytes, result.length, result.data_type, result.shape));
  own->set_label(usual->label());
  return own;
}

void raise_late(Job& job) {
  if (job.outside == nullptr) return;
  Outside found{};
  job.outside->take(found.data());
  raise_outside(job, found);
}

void deliver(const Backend& backend, Job& job, const std::shared_ptr<std::byte>& arena) {
  const TensorData written = write_outputs(backend, job);
  if (!runs_forward(job.run)) return;
  look_at_indices(backend, job);
  if (job.defers_result && job.pending == nullptr) {
    begin_result(job, [&](const std::byte* from, std::size_t bytes) {
      return read_memory_later(backend, from, bytes);
    });
  }
  if (job.pending != nullptr) return;
  TensorData& result = job.state->result;
  if (written.bytes != nullptr && !job.handler) {
    result = written;
  } else if (may_stay(backend, job)) {
    const CompiledGraph& graph = *job.graph;
    job.state->left = {{arena, graph.program->address(job.run, graph.result)},
                       graph.type(graph.result, job.rows),
                       graph.program->graph.value(graph.result).layout};
    job.state->is_left = true;
  } else {
    copy_out(backend, {*job.graph, job.run, job.graph->result, job.rows}, result);
  }
  if (job.handler) fill_host_copy(*job.graph->result_tensor, result);
}

}  // namespace traingraph
