// Keeps up to sixteen programs per graph, points them at parameters and at the shared arena, and
// grows that arena.
#include "graph/program/program_cache.h"

#include <algorithm>
#include <set>

#include <traingraph/errors.h>

#include "graph/data/data_binding.h"
#include "graph/lowering/check_integers.h"
#include "runtime/memory/transfer.h"

namespace traingraph {

using ir::kNone;
using ir::ValueId;

namespace {

// Whether one takes the other's place.
bool serve_same(const CompiledGraph& a, const CompiledGraph& b) {
  return a.batch == b.batch && a.mode == b.mode && a.takes_fewer == b.takes_fewer;
}

}  // namespace

// What computes fewer rows as it computes all serves both.
CompiledPtr ProgramCache::find(std::int64_t batch, Mode mode, bool fewer) {
  return programs_.find([&](const CompiledGraph& known) {
    const bool fits = fewer ? known.takes_fewer : !known.counts_rows;
    return fits && known.batch == batch && known.mode == mode && known.is_current(graph_);
  });
}

const CompiledGraph* ProgramCache::largest(Mode mode) const {
  const CompiledGraph* found = nullptr;
  for (const CompiledPtr& one : programs_) {
    if (one->mode != mode) continue;
    const bool is_larger = found == nullptr || one->batch > found->batch ||
                           (one->batch == found->batch && found->counts_rows);
    if (is_larger) found = one.get();
  }
  return found;
}

CompiledPtr ProgramCache::add(const CompiledPtr& graph) {
  CompiledPtr replaced;
  const auto old = std::find_if(programs_.begin(), programs_.end(), [&](const CompiledPtr& known) {
    return serve_same(*known, *graph);
  });
  if (old != programs_.end()) {
    replaced = *old;
    programs_.remove(replaced);
  }
  programs_.add(graph);
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
  const auto found = sums_.find(tensor.get());
  if (found != sums_.end() && found->second.layout == store.layout) {
    return found->second.buffer.get();
  }
  const std::shared_ptr<std::byte> buffer = backend_.allocate(store.bytes());
  GradientSum made{tensor, store.layout, buffer};
  if (found == sums_.end()) {
    sums_.emplace(tensor.get(), std::move(made));
    return buffer.get();
  }
  GradientSum& sum = found->second;
  if (buffer != nullptr) {
    convert(backend_, store.type(), sum.layout, sum.buffer.get(), store.layout, buffer.get());
  }
  sum = std::move(made);
  return buffer.get();
}

std::vector<std::pair<TensorPtr, TensorData>> ProgramCache::copy_sums() const {
  std::vector<std::pair<TensorPtr, TensorData>> result;
  for (const auto& [of, sum] : sums_) {
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
  return arena_.outgrows(graph.program->arena_bytes(run));
}

bool ProgramCache::has_room(const CompiledGraph& graph, Run run) const {
  return graph.program->arena() == arena().get() &&
         graph.program->arena_bytes(run) <= std::min(arena_.bytes(), arena_needed_);
}

void ProgramCache::make_room(CompiledGraph& graph, Run run) {
  const std::size_t bytes = graph.program->arena_bytes(run);
  arena_.grow(bytes);
  arena_needed_ = std::max(arena_needed_, bytes);
  arena_.bind(*graph.program);
}

bool ProgramCache::touches(const CompiledGraph& graph, const BoundArray& array) const {
  auto overlaps = [&](const std::byte* first, std::size_t bytes) {
    return array.address < first + bytes && first < array.address + array.bytes;
  };
  if (overlaps(arena().get(), arena_.bytes())) return true;
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
  std::set<const Tensor*> known;
  for (const CompiledPtr& program : programs_) {
    for (const LoweredGraph::Slot& slot : program->slots) {
      if (slot.buffer.empty() && known.insert(slot.tensor.get()).second) {
        result.push_back(slot.tensor);
      }
    }
  }
  return result;
}

void ProgramCache::list(const CompiledGraph& graph, Run run, MemoryPlan& plan,
                        const std::vector<CompiledPtr>* made) const {
  graph.list(plan);
  for (const CompiledPtr& other : programs_) {
    const auto replaces = [&](const CompiledPtr& one) { return serve_same(*one, *other); };
    if (serve_same(graph, *other)) continue;
    if (made != nullptr) {
      const bool is_beside = other->batch == graph.batch && other->mode == graph.mode;
      if (!is_beside || std::ranges::any_of(*made, replaces)) continue;
    }
    other->list_constants(plan);
  }
  if (made != nullptr) {
    for (const CompiledPtr& other : *made) {
      if (other.get() != &graph) other->list_constants(plan);
    }
  }
  plan.arena_bytes = std::max(arena_needed_, graph.program->arena_bytes(run));
  plan.library_bytes = library_bytes_;
}

}  // namespace traingraph
