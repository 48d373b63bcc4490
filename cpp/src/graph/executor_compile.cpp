// The compiling half of the executor: programs per batch size and mode, their parameters and the
// arena they share.
#include <algorithm>
#include <cstring>

#include <traingraph/errors.h>

#include "graph/data_binding.h"
#include "graph/executor.h"
#include "runtime/allocator.h"
#include "runtime/transfer.h"

namespace traingraph {

using ir::kNone;
using ir::ValueId;

namespace {

// Plans beyond this many are dropped, the longest unused first.
constexpr std::size_t kMaxPrograms = 16;

// One compilation at a time: graphs that share parameters merge their streams while compiling.
std::recursive_mutex& compilation() {
  static std::recursive_mutex mutex;
  return mutex;
}

bool clips_gradients(const GraphState& graph) {
  return graph.optimizer != nullptr && graph.optimizer->applies_gradient_clipping();
}

}  // namespace

Executor::Executor(GraphState& graph, const Backend& backend)
    : graph_(graph),
      backend_(backend),
      built_for_(graph.all_changes()),
      declared_batch_(declared_batch(graph)),
      // An inference graph over layers with a loss needs no labels: it gives what would be
      // compared.
      inference_mode_(!graph.training && lacks_labels(graph) ? Mode::prediction : Mode::inference),
      links_(graph.links),
      staging_(backend),
      stream_(std::make_shared<Stream>()),
      forward_count_(graph.forward_count) {}
Executor::~Executor() = default;

void Executor::prepare() {
  const bool labels_missing = graph_.loss_layer != nullptr && graph_.loss_labels.empty();
  // Without labels there is no loss to differentiate yet; the forward part is checked all the same.
  compiled(declared_batch_, graph_.training && !labels_missing ? Mode::training : inference_mode_);
}

bool Executor::current(const CompiledGraph& graph) const {
  if (graph.threads != Platform::thread_count()) return false;
  if (graph.mode == Mode::training && graph.clips != clips_gradients(graph_)) return false;
  for (std::size_t s = 0; s < graph.stores.size(); ++s) {
    const ParameterState* store = graph.slots[s].tensor->state().parameter.get();
    if (graph.stores[s] != nullptr &&
        (store != graph.stores[s] || store->version != graph.slot_versions[s])) {
      return false;
    }
  }
  return true;
}

Executor::CompiledPtr Executor::find_current(std::int64_t batch, Mode mode) {
  const std::lock_guard lock(mutex_);
  for (auto it = programs_.begin(); it != programs_.end(); ++it) {
    if ((*it)->batch != batch || (*it)->mode != mode) continue;
    if (!current(**it)) return nullptr;
    if (it != programs_.begin()) programs_.splice(programs_.begin(), programs_, it);
    return programs_.front();
  }
  return nullptr;
}

Executor::CompiledPtr Executor::compiled(std::int64_t batch, Mode mode) {
  if (CompiledPtr found = find_current(batch, mode)) return found;
  const std::lock_guard compiling(compilation());
  CompiledPtr result;
  // Compiling may move parameters and the arena: nothing may be running.
  stream_->run([&] {
    result = find_current(batch, mode);
    if (result != nullptr) return;
    result = compile(batch, mode);
    const std::lock_guard lock(mutex_);
    try {
      attach(*result);
    } catch (const OutOfMemory& error) {
      throw OutOfMemory(error.what() + plan_of(*result).largest_entries());
    }
    programs_.remove_if([&](const CompiledPtr& old) {
      if (old->batch != batch || old->mode != mode) return false;
      for (CompiledPtr* user : {&forward_, &gradient_, &submitted_forward_, &submitted_gradient_}) {
        if (*user == old) user->reset();
      }
      return true;
    });
    programs_.push_front(result);
    if (programs_.size() > kMaxPrograms) programs_.pop_back();
  });
  return result;
}

Executor::CompiledPtr Executor::compile(std::int64_t batch, Mode mode) {
  LoweredGraph lowered = lower(graph_, batch, mode);
  auto out = std::make_shared<CompiledGraph>();
  out->batch = batch;
  out->mode = mode;
  out->threads = Platform::thread_count();
  out->clips = clips_gradients(graph_);
  out->fixed_batch = lowered.lowering.graph.fixed_batch;

  passes::PipelineRequest request;
  request.backend = &backend_;
  request.fuse = !has(graph_.options, CompilationOptions::kDisableLayerFusion) &&
                 !has(graph_.options, CompilationOptions::kDebugLayers);
  request.precision = graph_.precision;
  request.choose_parameters = mode == Mode::training;
  const ir::Graph& graph = lowered.lowering.graph;
  std::vector<ValueId> slot_values(lowered.slots.size(), kNone);
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].source == ir::Source::parameter) {
      slot_values[static_cast<std::size_t>(graph.values[v].slot)] = static_cast<ValueId>(v);
    }
  }
  // A batch size that another one is fixed against never runs.
  const bool runs = out->fixed_batch.empty() || batch == declared_batch_;
  for (std::size_t s = 0; s < lowered.slots.size(); ++s) {
    if (runs) check_range(lowered.slots[s]);
    Tensor& tensor = *lowered.slots[s].tensor;
    const Shape& shape = graph.type(slot_values[s]).shape;
    ParameterState& store = place_parameter(tensor, backend_, shape);
    Stream::merge(stream_, store.stream);
    tensor.state().device = graph_.device;
    request.parameters.push_back(
        {store.layout_chosen || mode != Mode::training, store.layout, lowered.slots[s].follows});
  }
  if (links_ != nullptr) Stream::merge(stream_, links_->stream);
  for (const auto& [tensor, gradient] : lowered.gradients) request.gradients.push_back(gradient);

  std::vector<ValueId> values;
  const std::size_t before = private_memory_bytes();
  out->program = passes::compile(graph, request, values);
  const std::size_t after = private_memory_bytes();
  library_bytes_ += after > before ? after - before : 0;
  auto now = [&](ValueId value) {
    return value == kNone ? kNone : values[static_cast<std::size_t>(value)];
  };
  for (BoundSlot& slot : lowered.bound) {
    slot.value = now(slot.value);
    out->bound.push_back(slot);
  }
  for (ValueId value : slot_values) out->slot_values.push_back(now(value));
  for (const auto& [tensor, value] : lowered.tensors) out->tensors.emplace(tensor, now(value));
  for (const auto& [tensor, value] : lowered.gradients) out->gradients.emplace(tensor, now(value));
  out->prediction = lowered.prediction;
  out->label = lowered.label;
  out->result = now(lowered.result);
  out->result_tensor = lowered.result_tensor;
  out->slots = std::move(lowered.slots);

  // The layouts this program was given or has chosen become the stores'.
  for (std::size_t s = 0; s < out->slots.size(); ++s) {
    if (out->slots[s].follows != kNone) continue;
    ParameterState& store = *out->slots[s].tensor->state().parameter;
    change_layout(store, out->program->graph.value(out->slot_values[s]).layout);
    if (mode == Mode::training) store.layout_chosen = true;
  }
  return out;
}

void Executor::attach(CompiledGraph& graph) {
  graph.stores.clear();
  graph.slot_versions.clear();
  const std::vector<std::string> buffers =
      graph_.optimizer != nullptr ? graph_.optimizer->slots() : std::vector<std::string>();
  for (std::size_t s = 0; s < graph.slots.size(); ++s) {
    const LoweredGraph::Slot& slot = graph.slots[s];
    ParameterState& store = *slot.tensor->state().parameter;
    std::byte* address = slot.accumulates      ? sum_buffer(slot.tensor)
                         : slot.buffer.empty() ? store.master.get()
                                               : slot_buffer(*slot.tensor, slot.buffer);
    if (!slot.buffer.empty() && !slot.accumulates) store.optimizer_slots = buffers;
    graph.program->bind(graph.slot_values[s], address);
    graph.stores.push_back(slot.buffer.empty() ? &store : nullptr);
    graph.slot_versions.push_back(store.version);
  }
  const ir::Graph& ops = graph.program->graph;
  std::byte* step_block = staging_.step_block();
  graph.step_inputs.clear();
  for (std::size_t v = 0; v < ops.values.size(); ++v) {
    if (ops.values[v].source != ir::Source::step) continue;
    graph.program->bind(static_cast<ValueId>(v), step_block + ops.values[v].slot * 8);
    graph.step_inputs.push_back(static_cast<ir::StepInput>(ops.values[v].slot));
  }
  for (const BoundSlot& slot : graph.bound) {
    const bool given =
        slot.from == BoundSlot::From::caller || slot.from == BoundSlot::From::user_gradient;
    if (slot.value == kNone || !given) continue;
    staging_.place(*slot.tensor, ir::storage_bytes(ops.type(slot.value), {}));
  }
  for (const GradientHandle& handle : graph_.gradient_handles) read_through(handle);
  for (const auto& [tensor, value] : graph.tensors) {
    auto* shared = const_cast<Tensor*>(tensor);
    if (shared->state().parameter == nullptr) shared->state().reader = weak_from_this();
  }
  place_exchanges(graph);
  grow_arena(graph.program->arena_bytes());
  graph.program->bind_arena(arena_.get());
}

// The sum of a parameter's gradients, in the layout the parameter has now.
std::byte* Executor::sum_buffer(const TensorPtr& tensor) {
  const ParameterState& store = *tensor->state().parameter;
  auto found = std::find_if(sums_.begin(), sums_.end(),
                            [&](const GradientSum& sum) { return sum.tensor == tensor; });
  if (found != sums_.end() && found->layout == store.layout) return found->buffer.get();
  const std::shared_ptr<std::byte> buffer = backend_.allocate(store.bytes());
  if (found == sums_.end()) {
    sums_.push_back({tensor, store.layout, buffer});
    return buffer.get();
  }
  if (buffer != nullptr) {
    convert(backend_, store.type(), found->layout, found->buffer.get(), store.layout, buffer.get());
  }
  *found = {tensor, store.layout, buffer};
  return buffer.get();
}

std::string Executor::description() const {
  const std::lock_guard lock(mutex_);
  if (programs_.empty()) return "not compiled";
  return ir::to_string(programs_.front()->program->graph);
}

}  // namespace traingraph
