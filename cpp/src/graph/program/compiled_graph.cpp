// Tells whether a compiled graph is still current, lists its memory, and copies values out of it.
#include "graph/program/compiled_graph.h"

#include <algorithm>
#include <cstring>

#include "runtime/device_memory.h"
#include "runtime/memory/transfer.h"

namespace traingraph {

using ir::kNone;
using ir::ValueId;

bool CompiledGraph::is_current(const GraphState& state) const {
  if (threads != Platform::thread_count()) return false;
  if (mode == Mode::training && clips != clips_gradients(state)) return false;
  return lies_where_parameters_do();
}

bool CompiledGraph::lies_where_parameters_do() const {
  const std::uint64_t moves = parameter_moves();
  if (moves_seen.load(std::memory_order_relaxed) == moves) return true;
  for (std::size_t s = 0; s < stores.size(); ++s) {
    const ParameterState* store = slots[s].tensor->state().parameter.get();
    if (stores[s] != nullptr && (store != stores[s] || store->version != slot_versions[s])) {
      return false;
    }
  }
  moves_seen.store(moves, std::memory_order_relaxed);
  return true;
}

ValueId CompiledGraph::counterpart(const CompiledGraph& other, ValueId value) const {
  for (const auto& [theirs, ours] :
       {std::pair(&other.tensors, &tensors), std::pair(&other.gradients, &gradients)}) {
    for (const auto& [tensor, known] : *theirs) {
      if (known == value) return ours->at(tensor);
    }
  }
  return other.result == value ? result : kNone;
}

ir::Type CompiledGraph::type(ValueId value, std::int64_t rows) const {
  ir::Type result = program->graph.type(value);
  if (rows != batch && result.batched) result.shape[0] = result.shape[0] / batch * rows;
  return result;
}

bool CompiledGraph::changes_parameters() const {
  return std::ranges::any_of(program->graph.values,
                             [](const ir::Value& value) { return value.writes != kNone; });
}

namespace {

void add_persistent(const ir::Value& value, MemoryPlan& plan) {
  const std::size_t bytes = ir::storage_bytes(value.type, value.layout);
  plan.entries.push_back({value.name, "persistent", bytes});
  plan.persistent_bytes += bytes;
}

}  // namespace

void CompiledGraph::list_constants(MemoryPlan& plan) const {
  for (const ConstantValue& constant : program->constants) {
    add_persistent(program->graph.value(constant.value), plan);
  }
}

void CompiledGraph::list(MemoryPlan& plan) const {
  const ir::Graph& ops = program->graph;
  const ProgramVariant& variant = program->phase_schedule;
  for (ValueId number : slot_values) add_persistent(ops.value(number), plan);
  list_constants(plan);
  for (const BoundSlot& slot : bound) {
    if (slot.value == kNone) continue;
    plan.entries.push_back({slot.name, "bound", ir::storage_bytes(ops.type(slot.value), {})});
  }
  std::map<ValueId, std::string> names;
  for (const auto& [tensor, value] : gradients) {
    if (value != kNone) names[value] = "gradient of " + tensor->label();
  }
  const auto name_of = [&](const ir::Node& node) {
    return ir::name(node.op) + ir::where(ops, node);
  };
  for (const Rematerialized& again : program->rematerialized) {
    const ir::Node& producer = ops.node(ops.value(again.value).producer);
    plan.recomputed.push_back({name_of(producer), "recomputed", again.freed_bytes});
  }
  const std::vector<std::vector<ir::NodeId>> readers = ir::consumers(ops);
  for (std::size_t n = 0; n < ops.nodes.size(); ++n) {
    const ir::Node& node = ops.nodes[n];
    const std::string op = name_of(node);
    for (ValueId output : node.outputs) {
      const auto v = static_cast<std::size_t>(output);
      if (program->roots[v] != output || variant.value_offsets[v] < 0) continue;
      const bool crosses =
          std::any_of(readers[v].begin(), readers[v].end(),
                      [&](ir::NodeId reader) { return ops.node(reader).phase != node.phase; });
      const char* kind = "transient";
      if (names.contains(output)) {
        kind = "gradient";
      } else if (crosses || ops.value(output).keep) {
        kind = node.phase == ir::Phase::forward ? "saved" : "gradient";
      }
      plan.entries.push_back({names.contains(output) ? names[output] : op, kind,
                              ir::storage_bytes(ops.type(output), ops.value(output).layout)});
    }
    const std::size_t workspace = program->executable->workspace_bytes(static_cast<int>(n));
    if (workspace > 0 && node.op != ir::Op::reshape) {
      plan.entries.push_back({op, "workspace", workspace});
    }
  }
}

void Passes::drop(const CompiledPtr& program) {
  if (forward == program) forward = nullptr;
  if (gradient == program) gradient = nullptr;
}

bool clips_gradients(const GraphState& state) {
  return state.optimizer != nullptr && state.optimizer->applies_gradient_clipping();
}

TensorData host_array(ir::Type type) {
  TensorData data;
  const std::size_t bytes = ir::storage_bytes(type, {});
  const std::shared_ptr<std::byte[]> memory(new std::byte[bytes]);
  data.bytes = memory.get();
  data.length = bytes;
  data.data_type = type.data_type;
  data.shape = std::move(type.shape);
  data.owner = std::shared_ptr<const void>(memory, memory.get());
  return data;
}

namespace {

// Whether the first rows are the first bytes.
bool rows_lie_first(const ir::Layout& layout) {
  const auto splits_rows = [](const ir::Layout::Block& block) { return block.axis == 0; };
  return (layout.order.empty() || layout.order[0] == 0) &&
         std::ranges::none_of(layout.blocks, splits_rows);
}

}  // namespace

TensorData copy_out(const Backend& backend, const LeftValue& left) {
  TensorData data = host_array(left.graph.type(left.value, left.rows));
  copy_out(backend, left, data);
  return data;
}

void copy_out(const Backend& backend, const LeftValue& left, const TensorData& to) {
  const ir::Value& v = left.graph.program->graph.value(left.value);
  const std::byte* from = left.graph.program->address(left.run, left.value);
  // Without memory behind the plan an address is an offset.
  if (from == nullptr || !backend.traits().computes) {
    std::memset(to.bytes, 0, to.length);
    return;
  }
  if (left.is_whole()) return download(backend, v.type, v.layout, from, to.bytes);
  const ir::Type type = left.graph.type(left.value, left.rows);
  if (rows_lie_first(v.layout)) return download(backend, type, v.layout, from, to.bytes);
  const TensorData all = host_array(v.type);
  download(backend, v.type, v.layout, from, all.bytes);
  std::memcpy(to.bytes, all.bytes, ir::storage_bytes(type, {}));
}

void copy_within(const Backend& backend, const LeftValue& left, std::byte* to) {
  const ir::Value& v = left.graph.program->graph.value(left.value);
  const std::byte* from = left.graph.program->address(left.run, left.value);
  if (left.is_whole()) return convert(backend, v.type, v.layout, from, {}, to);
  const ir::Type type = left.graph.type(left.value, left.rows);
  if (rows_lie_first(v.layout)) return convert(backend, type, v.layout, from, {}, to);
  const std::shared_ptr<std::byte> all = backend.allocate(ir::storage_bytes(v.type, {}));
  convert(backend, v.type, v.layout, from, {}, all.get());
  copy_memory(backend, to, all.get(), ir::storage_bytes(type, {}));
  finish_work(backend);  // before the memory goes
}

}  // namespace traingraph
