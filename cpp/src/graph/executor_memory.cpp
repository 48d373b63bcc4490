// The arena that an executor's programs share, and what all of its memory is for.
#include <algorithm>
#include <map>

#include <traingraph/errors.h>

#include "graph/executor.h"

namespace traingraph {

using ir::kNone;
using ir::ValueId;

// One arena at a time is held, also while a larger one is asked for.
void Executor::grow_arena(std::size_t bytes) {
  const std::size_t before = arena_bytes_;
  if (bytes > before && backend_.computes()) {
    for (CompiledPtr* user : {&forward_, &gradient_, &submitted_forward_, &submitted_gradient_}) {
      user->reset();
    }
    try {
      place_arena(bytes);
    } catch (const OutOfMemory&) {
      restore_arena(before);
      throw;
    }
  }
  arena_needed_ = std::max(arena_needed_, bytes);
}

void Executor::place_arena(std::size_t bytes) {
  arena_.reset();
  arena_bytes_ = 0;
  if (bytes > 0) arena_ = backend_.allocate(bytes);
  arena_bytes_ = bytes;
  for (const auto& program : programs_) program->program->bind_arena(arena_.get());
}

// What was there before, for the programs that ran on it; without it they are compiled again.
void Executor::restore_arena(std::size_t bytes) {
  try {
    place_arena(bytes);
  } catch (const OutOfMemory&) {
    programs_.clear();
    arena_needed_ = 0;
  }
}

std::size_t Executor::device_memory_size() const {
  const std::lock_guard lock(mutex_);
  return arena_needed_;
}

MemoryPlan Executor::memory_plan() const {
  const std::lock_guard lock(mutex_);
  return programs_.empty() ? MemoryPlan() : plan_of(*programs_.front());
}

MemoryPlan Executor::plan_of(const CompiledGraph& graph) const {
  MemoryPlan plan;
  const ir::Graph& ops = graph.program->graph;
  const ProgramVariant& variant = graph.program->split;
  for (std::size_t s = 0; s < graph.slots.size(); ++s) {
    const ir::Value& value = ops.value(graph.slot_values[s]);
    const std::size_t bytes = ir::storage_bytes(value.type, value.layout);
    plan.entries.push_back({value.name, "persistent", bytes});
    plan.persistent_bytes += bytes;
  }
  for (const BoundSlot& slot : graph.bound) {
    if (slot.value == kNone) continue;
    plan.entries.push_back({slot.name, "bound", ir::storage_bytes(ops.type(slot.value), {})});
  }
  std::map<ValueId, std::string> names;
  for (const auto& [tensor, value] : graph.gradients) {
    if (value != kNone) names[value] = "gradient of " + tensor->label();
  }
  for (std::size_t n = 0; n < ops.nodes.size(); ++n) {
    const ir::Node& node = ops.nodes[n];
    const std::string op = std::string(ir::name(node.op)) + ir::where(ops, node);
    for (ValueId output : node.outputs) {
      const auto v = static_cast<std::size_t>(output);
      if (graph.program->roots[v] != output || variant.value_offsets[v] < 0) continue;
      bool crosses = false;
      for (const ir::Node& reader : ops.nodes) {
        crosses = crosses || (reader.phase != node.phase &&
                              std::count(reader.inputs.begin(), reader.inputs.end(), output) > 0);
      }
      const char* kind = "transient";
      if (names.contains(output)) {
        kind = "gradient";
      } else if (crosses || ops.value(output).keep) {
        kind = node.phase == ir::Phase::forward ? "saved" : "gradient";
      }
      plan.entries.push_back({names.contains(output) ? names[output] : op, kind,
                              ir::storage_bytes(ops.type(output), ops.value(output).layout)});
    }
    const std::size_t workspace = graph.program->executable->workspace_bytes(static_cast<int>(n));
    if (workspace > 0 && node.op != ir::Op::reshape) {
      plan.entries.push_back({op, "workspace", workspace});
    }
  }
  staging_.list(plan);
  for (const CompiledGraph::Handed& handed : graph.handed) {
    plan.entries.push_back({handed.tensor->label(), "exchange", handed.to->capacity});
    plan.exchange_bytes += handed.to->capacity;
  }
  plan.arena_bytes = std::max(arena_needed_, graph.program->arena_bytes());
  plan.library_bytes = library_bytes_;
  plan.context_bytes = backend_.context_bytes();
  plan.total_bytes =
      plan.arena_bytes + plan.persistent_bytes + plan.staging_bytes + plan.exchange_bytes;
  return plan;
}

}  // namespace traingraph
