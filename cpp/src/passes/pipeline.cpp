// The order of the passes, and the step from a scheduled graph to a program with its memory.
#include "ops/op.h"
#include "passes/passes.h"

namespace traingraph::passes {
namespace {

using ir::kNone;
using ir::NodeId;
using ir::ValueId;

KernelRoom room_of(const Program& program, bool has_memory_limit) {
  KernelRoom room;
  for (std::size_t n = 0; n < program.graph.nodes.size(); ++n) {
    room.workspaces.push_back(program.executable->workspace_bytes(static_cast<NodeId>(n)));
  }
  room.unaliased_result_bytes = program.executable->unaliased_result_bytes();
  room.sums_go_on = program.executable->sums_go_on();
  if (!has_memory_limit) room.unaliased_step_bytes = program.executable->unaliased_step_bytes();
  return room;
}

void plan(const Program& program, const KernelRoom& room, bool by_phases, ProgramVariant& variant) {
  // A step leaves no gradients to be read.
  const std::vector<ValueId> gradients = by_phases ? program.gradients : std::vector<ValueId>();
  VariantPlan plan = plan_variant(program.graph, room, by_phases, gradients);
  verify_plan(plan.arena);
  auto offset = [&](int buffer) {
    return buffer < 0 ? std::int64_t{-1}
                      : static_cast<std::int64_t>(
                            plan.arena.buffers[static_cast<std::size_t>(buffer)].offset);
  };
  for (int buffer : plan.buffer_of) variant.value_offsets.push_back(offset(buffer));
  for (int buffer : plan.workspace_of) variant.workspace_offsets.push_back(offset(buffer));
  variant.schedule = std::move(plan.schedule);
  variant.arena_bytes = plan.arena.bytes;
}

// Kernels and places for a graph with layouts.
std::unique_ptr<Program> prepared(ir::Graph graph, const Backend& backend,
                                  std::vector<ValueId> gradients, bool has_memory_limit) {
  ir::verify(graph);
  std::vector<NodeId> nodes;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].op != ir::Op::reshape) nodes.push_back(static_cast<NodeId>(n));
  }
  // The graph moves into the program first: kernels keep numbers, never addresses, of it.
  auto program = std::make_unique<Program>(std::move(graph), nullptr);
  program->executable = backend.compile(program->graph, nodes);
  program->gradients = std::move(gradients);
  program->stays_finite = [](const ir::Node& node) {
    const auto stays = ops::definition(node.op).properties.stays_finite;
    return stays != nullptr && stays(node);
  };
  const KernelRoom room = room_of(*program, has_memory_limit);
  plan(*program, room, true, program->phase_schedule);
  plan(*program, room, false, program->step_schedule);
  return program;
}

// Numbers of what a pass has left.
std::vector<ValueId> mapped(const std::vector<ValueId>& list, const std::vector<ValueId>& values) {
  std::vector<ValueId> result;
  for (ValueId value : list) {
    const ValueId now = value == kNone ? kNone : values[static_cast<std::size_t>(value)];
    if (now != kNone) result.push_back(now);
  }
  return result;
}

}  // namespace

std::unique_ptr<Program> compile(const ir::Graph& graph, const PipelineRequest& request,
                                 std::vector<ValueId>& values) {
  ir::verify(graph);
  ir::Graph lowered = without_dead_nodes(graph, values);
  const auto drop_dead_nodes = [&] {
    ir::verify(lowered);
    std::vector<ValueId> then;
    lowered = without_dead_nodes(lowered, then);
    for (ValueId& value : values) {
      if (value != kNone) value = then[static_cast<std::size_t>(value)];
    }
  };
  if (request.precision != Precision::kFloat32) {
    lowered = with_precision(lowered, request.precision, mapped(request.gradients, values));
    drop_dead_nodes();  // casts of what nobody reads in that form
  }
  if (ir::Graph composed = with_compositions(lowered, *request.backend);
      composed.values.size() != lowered.values.size()) {
    lowered = std::move(composed);
    drop_dead_nodes();
  }
  if (request.fuse) {
    lowered = with_reshapes_last(lowered);
    drop_dead_nodes();
    lowered = fuse(lowered, *request.backend);
  }
  lowered =
      assign_layouts(lowered, *request.backend, request.parameters, request.choose_parameters);
  if (request.fuse) lowered = request.backend->lowered(std::move(lowered));
  const std::vector<Constant> constants = take_constants(lowered);
  auto program = prepared(std::move(lowered), *request.backend, mapped(request.gradients, values),
                          request.has_memory_limit);
  write_constants(constants, *request.backend, *program);
  return program;
}

Rematerialization choose_rematerialized(const Program& program, const Backend& backend, bool apart,
                                        std::size_t arena_limit) {
  return choose_rematerialized(program.graph, backend, room_of(program, true), program.gradients,
                               apart, arena_limit);
}

std::unique_ptr<Program> with_rematerialized(const Program& program, const Backend& backend,
                                             const std::vector<Rematerialized>& values) {
  std::vector<NodeId> origins;
  auto again = prepared(with_rematerialized(program.graph, backend, values, origins), backend,
                        program.gradients, true);
  again->rematerialized = values;
  for (const ConstantValue& constant : program.constants)
    again->add_constant(constant.value, constant.bytes);
  return again;
}

}  // namespace traingraph::passes
