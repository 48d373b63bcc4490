// From the layers of a graph to a program, and from tensors to what they are in it.
#include <traingraph/errors.h>

#include "graph/data/data_binding.h"
#include "graph/lowering/check_integers.h"
#include "graph/program/compiled_graph.h"
#include "runtime/memory/allocator.h"
#include "runtime/memory/transfer.h"

namespace traingraph {

using ir::kNone;
using ir::ValueId;

namespace {

std::vector<ValueId> values_of_slots(const LoweredGraph& lowered) {
  std::vector<ValueId> result(lowered.slots.size(), kNone);
  const std::vector<ir::Value>& values = lowered.lowering.graph.values;
  for (std::size_t v = 0; v < values.size(); ++v) {
    if (values[v].source != ir::Source::parameter) continue;
    result[static_cast<std::size_t>(values[v].slot)] = static_cast<ValueId>(v);
  }
  return result;
}

// What the pipeline is to keep to, by slot.
void place_parameters(const GraphState& state, const std::shared_ptr<Stream>& stream, Mode mode,
                      const LoweredGraph& lowered, const std::vector<ValueId>& slot_values,
                      passes::PipelineRequest& request) {
  for (std::size_t s = 0; s < lowered.slots.size(); ++s) {
    const LoweredGraph::Slot& slot = lowered.slots[s];
    Tensor& tensor = *slot.tensor;
    if (slot.is_of_optimizer()) {
      share_slots(tensor, state.buffer_parts);
      if (state.buffer_parts != nullptr) {
        request.parameters.push_back({true, {}});
        continue;
      }
    }
    const Shape& shape = lowered.lowering.graph.type(slot_values[s]).shape;
    // Before it moves to another device: it may be in use.
    if (tensor.state().parameter != nullptr)
      Stream::merge(stream, tensor.state().parameter->stream);
    ParameterState& store = place_parameter(tensor, *request.backend, shape);
    Stream::merge(stream, store.stream);
    tensor.state().device = state.device;
    request.parameters.push_back(
        {store.layout_chosen || mode != Mode::training, store.layout, slot.follows});
  }
}

// What names mean, where `values` says what the pipeline has made of each value.
void name_values(LoweredGraph lowered, const std::vector<ValueId>& slot_values,
                 const std::vector<ValueId>& values, CompiledGraph& out) {
  auto now = [&](ValueId value) {
    return value == kNone ? kNone : values[static_cast<std::size_t>(value)];
  };
  for (BoundSlot& slot : lowered.bound) {
    slot.value = now(slot.value);
    out.bound.push_back(slot);
  }
  for (ValueId value : slot_values) out.slot_values.push_back(now(value));
  for (const auto& [tensor, value] : lowered.tensors) out.tensors.emplace(tensor, now(value));
  for (const auto& [tensor, value] : lowered.gradients) out.gradients.emplace(tensor, now(value));
  out.prediction = lowered.prediction;
  out.label = lowered.label;
  out.result = now(lowered.result);
  out.result_tensor = lowered.result_tensor;
  out.index_checks = std::move(lowered.index_checks);
  out.outside = now(lowered.outside);
  out.slots = std::move(lowered.slots);
}

// The layouts that a program was given or has chosen become the stores'.
void settle_layouts(const CompiledGraph& graph) {
  for (std::size_t s = 0; s < graph.slots.size(); ++s) {
    if (!graph.slots[s].buffer.empty()) continue;
    ParameterState& store = *graph.slots[s].tensor->state().parameter;
    change_layout(store, graph.program->graph.value(graph.slot_values[s]).layout);
    if (graph.mode == Mode::training) store.layout_chosen = true;
  }
}

}  // namespace

CompiledPtr compile(const GraphState& state, const Backend& backend,
                    const std::shared_ptr<Stream>& stream, std::int64_t batch, Mode mode,
                    bool fewer) {
  LoweredGraph lowered = lower(state, batch, mode, fewer);
  if (!lowered.meeting.empty()) return nullptr;
  auto out = std::make_shared<CompiledGraph>();
  out->batch = batch;
  out->takes_fewer = fewer;
  out->counts_rows = lowered.counts_rows;
  out->mode = mode;
  out->threads = Platform::thread_count();
  out->clips = clips_gradients(state);
  out->result_has_batch = lowered.lowering.graph.type(lowered.result).batched;

  passes::PipelineRequest request;
  request.backend = &backend;
  request.fuse = !has(state.options, CompilationOptions::kDisableLayerFusion) &&
                 !has(state.options, CompilationOptions::kDebugLayers);
  request.precision = state.precision;
  request.choose_parameters = mode == Mode::training;
  request.has_memory_limit = state.memory_limit.has_value();
  for (const LoweredGraph::Slot& slot : lowered.slots) check_range(slot);
  const std::vector<ValueId> slot_values = values_of_slots(lowered);
  place_parameters(state, stream, mode, lowered, slot_values, request);
  if (state.links != nullptr) Stream::merge(stream, state.links->stream);
  for (const auto& [tensor, gradient] : lowered.gradients) request.gradients.push_back(gradient);

  std::vector<ValueId> values;
  const std::size_t before = private_memory_bytes();
  out->program = passes::compile(lowered.lowering.graph, request, values);
  const std::size_t after = private_memory_bytes();
  out->library_bytes = after > before ? after - before : 0;
  name_values(std::move(lowered), slot_values, values, *out);
  settle_layouts(*out);
  return out;
}

}  // namespace traingraph
