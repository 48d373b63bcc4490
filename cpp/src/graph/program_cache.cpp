#include "graph/program_cache.h"

#include <algorithm>

#include <traingraph/errors.h>

#include "graph/data_binding.h"
#include "runtime/transfer.h"

namespace traingraph {

using ir::kNone;
using ir::ValueId;

namespace {

// Programs beyond this many are dropped, the longest unused first.
constexpr std::size_t kMaxPrograms = 16;

}  // namespace

CompiledPtr ProgramCache::find(std::int64_t batch, Mode mode) {
  for (auto it = programs_.begin(); it != programs_.end(); ++it) {
    if ((*it)->batch != batch || (*it)->mode != mode) continue;
    if (!(*it)->is_current(graph_)) return nullptr;
    if (it != programs_.begin()) programs_.splice(programs_.begin(), programs_, it);
    return programs_.front();
  }
  return nullptr;
}

const CompiledGraph* ProgramCache::newest() const {
  return programs_.empty() ? nullptr : programs_.front().get();
}

CompiledPtr ProgramCache::add(const CompiledPtr& graph) {
  CompiledPtr replaced;
  const auto old = std::find_if(programs_.begin(), programs_.end(), [&](const CompiledPtr& known) {
    return known->batch == graph->batch && known->mode == graph->mode;
  });
  if (old != programs_.end()) {
    replaced = *old;
    programs_.erase(old);
  }
  programs_.push_front(graph);
  if (programs_.size() > kMaxPrograms) programs_.pop_back();
  return replaced;
}

void ProgramCache::bind_parameters(CompiledGraph& graph) {
  library_bytes_ += graph.library_bytes;
  graph.stores.clear();
  graph.slot_versions.clear();
  const std::vector<std::string> buffers =
      graph_.optimizer != nullptr ? graph_.optimizer->slots() : std::vector<std::string>();
  for (std::size_t s = 0; s < graph.slots.size(); ++s) {
    const LoweredGraph::Slot& slot = graph.slots[s];
    ParameterState& store = *slot.tensor->state().parameter;
    std::byte* address = slot.accumulates      ? sum_of(slot.tensor)
                         : slot.buffer.empty() ? store.master.get()
                                               : slot_buffer(*slot.tensor, slot.buffer);
    if (!slot.buffer.empty() && !slot.accumulates) store.optimizer_slots = buffers;
    graph.program->bind(graph.slot_values[s], address);
    graph.stores.push_back(slot.buffer.empty() ? &store : nullptr);
    graph.slot_versions.push_back(store.version);
  }
  graph.held.clear();
  for (const ParameterState* store : graph.stores) {
    if (store == nullptr) continue;
    graph.held.push_back(store->master);
    for (const auto& [name, buffer] : store->slots) graph.held.push_back(buffer);
  }
}

// In the layout that the parameter has now.
std::byte* ProgramCache::sum_of(const TensorPtr& tensor) {
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

std::vector<std::pair<TensorPtr, TensorData>> ProgramCache::copy_sums() const {
  std::vector<std::pair<TensorPtr, TensorData>> result;
  for (const GradientSum& sum : sums_) {
    const TensorDescriptor& d = sum.tensor->descriptor();
    TensorData data = TensorData::copy_of(nullptr, 0, d.data_type, d.shape);
    if (sum.buffer != nullptr) {
      download(backend_, sum.tensor->state().parameter->type(), sum.layout, sum.buffer.get(),
               data.bytes);
    }
    result.emplace_back(sum.tensor, std::move(data));
  }
  return result;
}

void ProgramCache::write_sums(const std::vector<std::pair<TensorPtr, TensorData>>& sums) {
  for (const auto& [tensor, data] : sums) {
    const ParameterState& store = *tensor->state().parameter;
    std::byte* to = sum_of(tensor);
    if (to != nullptr) upload(backend_, store.type(), data.bytes, store.layout, to);
  }
}

bool ProgramCache::outgrows(const CompiledGraph& graph, Run run) const {
  return graph.program->arena_bytes(run) > arena_bytes_ && backend_.computes();
}

// One arena at a time is held, also while a larger one is asked for.
void ProgramCache::make_room(CompiledGraph& graph, Run run) {
  const std::size_t bytes = graph.program->arena_bytes(run), before = arena_bytes_;
  if (outgrows(graph, run)) {
    try {
      place_arena(bytes);
    } catch (const OutOfMemory&) {
      restore_arena(before);
      throw;
    }
  }
  arena_needed_ = std::max(arena_needed_, bytes);
  if (graph.program->arena() != arena_.get()) graph.program->bind_arena(arena_.get());
}

void ProgramCache::place_arena(std::size_t bytes) {
  arena_.reset();
  arena_bytes_ = 0;
  if (bytes > 0) arena_ = backend_.allocate(bytes);
  arena_bytes_ = bytes;
  for (const CompiledPtr& program : programs_) program->program->bind_arena(arena_.get());
}

// What was there before, for the programs that ran on it; without it they are compiled again.
void ProgramCache::restore_arena(std::size_t bytes) {
  try {
    place_arena(bytes);
  } catch (const OutOfMemory&) {
    programs_.clear();
    arena_needed_ = 0;
  }
}

bool ProgramCache::touches(const CompiledGraph& graph, const BoundArray& array) const {
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

bool ProgramCache::has_batch(const Tensor& tensor) const {
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

void ProgramCache::check_ranges(const std::string& name, const Tensor& tensor, const ir::Type& type,
                                const TensorData& data) const {
  for (const CompiledPtr& program : programs_) {
    for (const BoundSlot& slot : program->bound) {
      if (slot.tensor.get() == &tensor) check_range(name, slot.range, type, data);
    }
  }
}

std::vector<TensorPtr> ProgramCache::parameters() const {
  std::vector<TensorPtr> result;
  for (const CompiledPtr& program : programs_) {
    for (const LoweredGraph::Slot& slot : program->slots) {
      if (!slot.buffer.empty()) continue;
      if (std::find(result.begin(), result.end(), slot.tensor) == result.end()) {
        result.push_back(slot.tensor);
      }
    }
  }
  return result;
}

void ProgramCache::list(const CompiledGraph& graph, Run run, MemoryPlan& plan) const {
  graph.list(plan);
  plan.arena_bytes = std::max(arena_needed_, graph.program->arena_bytes(run));
  plan.library_bytes = library_bytes_;
}

}  // namespace traingraph
