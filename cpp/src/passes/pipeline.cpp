// The order of the passes, and the step from a scheduled graph to a program with its memory.
#include <algorithm>

#include "passes/passes.h"

namespace traingraph::passes {
namespace {

using ir::kNone;
using ir::NodeId;
using ir::ValueId;

struct Lifetime {
  std::size_t first = 0;
  std::size_t last = 0;
  bool used = false;
};

// Where each root value must exist, in schedule positions. In separate calls a value that a later
// phase reads stays through all of that phase, because the phase may be repeated.
std::vector<Lifetime> lifetimes(const Program& program, const Schedule& schedule, bool split,
                                const std::vector<ValueId>& gradients) {
  const ir::Graph& graph = program.graph;
  std::vector<Lifetime> result(graph.values.size());
  const std::size_t end = schedule.order.size();
  auto root = [&](ValueId v) {
    return static_cast<std::size_t>(program.roots[static_cast<std::size_t>(v)]);
  };
  auto phase_end = [&](std::size_t position) {
    if (position < schedule.forward_end) return schedule.forward_end;
    return position < schedule.gradient_end ? schedule.gradient_end : end;
  };
  for (std::size_t k = 0; k < end; ++k) {
    const ir::Node& node = graph.node(schedule.order[k]);
    for (ValueId output : node.outputs) {
      Lifetime& life = result[root(output)];
      if (!life.used) life = {k, k, true};
    }
    for (ValueId input : node.inputs) {
      Lifetime& life = result[root(input)];
      if (!life.used) continue;  // a source
      const bool later_phase = split && phase_end(life.first) != phase_end(k);
      life.last = std::max(life.last, later_phase ? phase_end(k) - 1 : k);
    }
  }
  auto keep = [&](ValueId value) { result[root(value)].last = end; };
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].keep) keep(static_cast<ValueId>(v));
  }
  if (split) {
    for (ValueId gradient : gradients) keep(gradient);
  }
  return result;
}

// The operands of which an op reads each position for the last time before it writes that position
// of its result `k`: where one of equal element size ends, the result may take its place.
std::vector<ValueId> read_before_written(const ir::Node& node, std::size_t k) {
  if (node.op == ir::Op::elementwise) return node.inputs;
  if (node.op != ir::Op::batch_norm_gradient) return {};
  // x and dy are read for the sums first, and again for dx.
  const auto& attributes = std::get<ir::BatchNormAttributes>(node.attributes);
  std::vector<ValueId> begins_with = {node.inputs[0]};
  for (int i = 1; i < attributes.epilogue.inputs; ++i) {
    begins_with.push_back(node.inputs[static_cast<std::size_t>(i) + 4]);
  }
  if (k == 3) return begins_with;
  if (k == 4) return {node.inputs[node.inputs.size() - 4]};  // the twin's x
  if (k != 0) return {};
  if (attributes.gives_prologue) return {node.inputs[1]};
  begins_with.push_back(node.inputs[1]);
  return begins_with;
}

void plan_variant(Program& program, ProgramVariant& variant, bool split,
                  const std::vector<ValueId>& gradients) {
  const ir::Graph& graph = program.graph;
  variant.schedule = schedule(graph, split);
  const Schedule& schedule = variant.schedule;
  const std::vector<Lifetime> lives = lifetimes(program, schedule, split, gradients);
  std::vector<PlannedBuffer> buffers;
  std::vector<int> buffer_of(graph.values.size(), -1);
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const ir::Value& value = graph.values[v];
    if (program.roots[v] != static_cast<ValueId>(v) || !lives[v].used) continue;
    if (value.source != ir::Source::node) continue;
    PlannedBuffer buffer;
    buffer.bytes = ir::storage_bytes(value.type, value.layout);
    buffer.first = lives[v].first;
    buffer.last = lives[v].last;
    if (buffer.bytes <= program.executable->apart_bytes()) {
      buffer.first = 0;
      buffer.last = schedule.order.size();
    }
    buffer_of[v] = static_cast<int>(buffers.size());
    buffers.push_back(std::move(buffer));
  }
  for (NodeId id : schedule.order) {
    const ir::Node& node = graph.node(id);
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      const ValueId output = node.outputs[k];
      const int result = buffer_of[static_cast<std::size_t>(output)];
      if (result < 0) continue;
      for (ValueId input : read_before_written(node, k)) {
        const auto root = static_cast<std::size_t>(program.roots[static_cast<std::size_t>(input)]);
        const ir::Type& from = graph.type(input);
        const ir::Type& to = graph.type(output);
        if (buffer_of[root] < 0 || from.shape != to.shape ||
            element_bytes(from.data_type) != element_bytes(to.data_type) ||
            !(graph.value(input).layout == graph.value(output).layout)) {
          continue;
        }
        buffers[static_cast<std::size_t>(result)].may_replace.push_back(buffer_of[root]);
      }
    }
  }
  std::vector<int> workspace_of(graph.nodes.size(), -1);
  for (std::size_t k = 0; k < schedule.order.size(); ++k) {
    const NodeId id = schedule.order[k];
    const std::size_t bytes = program.executable->workspace_bytes(id);
    if (bytes == 0) continue;
    workspace_of[static_cast<std::size_t>(id)] = static_cast<int>(buffers.size());
    buffers.push_back({bytes, k, k, {}, 0});
  }
  const ArenaPlan plan = plan_arena(std::move(buffers));
  verify_plan(plan);
  auto offset = [&](int buffer) {
    return buffer < 0
               ? std::int64_t{-1}
               : static_cast<std::int64_t>(plan.buffers[static_cast<std::size_t>(buffer)].offset);
  };
  for (int buffer : buffer_of) variant.value_offsets.push_back(offset(buffer));
  for (int buffer : workspace_of) variant.workspace_offsets.push_back(offset(buffer));
  variant.arena_bytes = plan.bytes;
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
  if (request.fuse) {
    lowered = with_reshapes_last(lowered);
    drop_dead_nodes();
    lowered = fuse(lowered, *request.backend);
  }
  lowered =
      assign_layouts(lowered, *request.backend, request.parameters, request.choose_parameters);
  if (request.fuse) {
    lowered = with_signs(std::move(lowered), *request.backend);
    lowered = with_twins(lowered, *request.backend);
  }
  ir::verify(lowered);
  std::vector<NodeId> nodes;
  for (std::size_t n = 0; n < lowered.nodes.size(); ++n) {
    if (lowered.nodes[n].op != ir::Op::reshape) nodes.push_back(static_cast<NodeId>(n));
  }
  // The graph moves into the program first: kernels keep numbers, never addresses, of it.
  auto program = std::make_unique<Program>(std::move(lowered), nullptr);
  program->executable = request.backend->compile(program->graph, nodes);
  const std::vector<ValueId> gradients = mapped(request.gradients, values);
  plan_variant(*program, program->split, true, gradients);
  plan_variant(*program, program->step, false, {});
  return program;
}

}  // namespace traingraph::passes
