// From a graph to the places of its values in one schedule: the order, how long each value must
// exist, and the arena that the planner makes of that.
#include <algorithm>
#include <numeric>

#include "ir/extents.h"
#include "passes/passes.h"

namespace traingraph::passes {
namespace {

using ir::NodeId;
using ir::ValueId;

// A workspace of so few bytes holds counters, which a backend without aliasing of small results may
// set long before the op, if no other uses their bytes.
constexpr std::size_t kFewBytes = 256;

// Where each root value must exist, in schedule positions. In separate calls a value that a later
// phase reads stays through all of that phase, because the phase may be repeated.
std::vector<LiveInterval> live_intervals(const ir::Graph& graph, const std::vector<ValueId>& roots,
                                         const Schedule& schedule, bool by_phases,
                                         const std::vector<ValueId>& gradients) {
  std::vector<LiveInterval> result(graph.values.size());
  const std::size_t end = schedule.order.size();
  auto root = [&](ValueId v) {
    return static_cast<std::size_t>(roots[static_cast<std::size_t>(v)]);
  };
  auto phase_end = [&](std::size_t position) {
    if (position < schedule.forward_end) return schedule.forward_end;
    return position < schedule.gradient_end ? schedule.gradient_end : end;
  };
  for (std::size_t k = 0; k < end; ++k) {
    const ir::Node& node = graph.node(schedule.order[k]);
    for (ValueId output : node.outputs) {
      LiveInterval& interval = result[root(output)];
      if (!interval.used) interval = {k, k, true};
    }
    for (ValueId input : node.inputs) {
      LiveInterval& interval = result[root(input)];
      if (!interval.used) continue;  // a source
      const bool later_phase = by_phases && phase_end(interval.first) != phase_end(k);
      interval.last = std::max(interval.last, later_phase ? phase_end(k) - 1 : k);
    }
  }
  auto keep = [&](ValueId value) { result[root(value)].last = end; };
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (graph.values[v].keep) keep(static_cast<ValueId>(v));
  }
  if (by_phases) {
    for (ValueId gradient : gradients) keep(gradient);
  }
  return result;
}

// The last position beside which the sum over ranks at `position` may go on: that before the first
// node that reads one of its results, or the end.
std::size_t last_beside(const ir::Graph& graph, const std::vector<ValueId>& roots,
                        const Schedule& schedule, std::size_t position) {
  const auto root = [&](ValueId v) { return roots[static_cast<std::size_t>(v)]; };
  const std::vector<ValueId>& sums = graph.node(schedule.order[position]).outputs;
  std::size_t k = position + 1;
  for (; k < schedule.order.size(); ++k) {
    const std::vector<ValueId>& inputs = graph.node(schedule.order[k]).inputs;
    const auto is_sum = [&](ValueId input) {
      return std::ranges::any_of(sums, [&](ValueId sum) { return root(sum) == root(input); });
    };
    if (std::ranges::any_of(inputs, is_sum)) break;
  }
  return k - 1;
}

// The operands of which an op reads each position for the last time before it writes that position
// of its result `k`: where one of equal element size ends, the result may take its place.
std::vector<ValueId> read_before_written(const ir::Node& node, std::size_t k) {
  if (node.op == ir::Op::elementwise) return node.inputs;
  if (node.op != ir::Op::batch_norm_gradient) return {};
  using Operands = ir::BatchNormGradientOperands;
  // x and dy are read for the sums first, and again for dx.
  const auto& attributes = std::get<ir::BatchNormAttributes>(node.attributes);
  std::vector<ValueId> begins_with = {node.inputs[Operands::dy]};
  for (int i = 1; i < attributes.epilogue.inputs; ++i) {
    begins_with.push_back(node.inputs[Operands::prologue(i)]);
  }
  if (k == Operands::given_prologue) return begins_with;
  if (k == Operands::paired_dx) return {node.inputs[Operands::paired(attributes.epilogue.inputs)]};
  if (k != Operands::dx) return {};
  if (attributes.gives_prologue) return {node.inputs[Operands::x]};
  begins_with.push_back(node.inputs[Operands::x]);
  return begins_with;
}

// Lets results take the place of operands that end where they begin.
void allow_replacing(const ir::Graph& graph, const std::vector<ValueId>& roots,
                     const std::vector<NodeId>& order, const std::vector<int>& buffer_of,
                     std::vector<PlannedBuffer>& buffers) {
  for (NodeId id : order) {
    const ir::Node& node = graph.node(id);
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      const ValueId output = node.outputs[k];
      const int result = buffer_of[static_cast<std::size_t>(output)];
      if (result < 0) continue;
      for (ValueId input : read_before_written(node, k)) {
        const auto root = static_cast<std::size_t>(roots[static_cast<std::size_t>(input)]);
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
}

}  // namespace

VariantPlan plan_variant(const ir::Graph& graph, const KernelRoom& room, bool by_phases,
                         const std::vector<ValueId>& gradients) {
  VariantPlan plan;
  plan.schedule = schedule(graph, by_phases, room.sums_go_on);
  const std::vector<NodeId>& order = plan.schedule.order;
  const std::vector<ValueId> roots = alias_roots(graph);
  plan.liveness = live_intervals(graph, roots, plan.schedule, by_phases, gradients);
  std::vector<std::size_t> done(order.size());  // at which position each node is
  std::iota(done.begin(), done.end(), std::size_t{0});
  for (std::size_t k = 0; room.sums_go_on && k < order.size(); ++k) {
    const ir::Node& node = graph.node(order[k]);
    if (!may_go_on(node)) continue;
    done[k] = last_beside(graph, roots, plan.schedule, k);
    for (const std::vector<ValueId>* values : {&node.inputs, &node.outputs}) {
      for (ValueId value : *values) {
        LiveInterval& interval =
            plan.liveness[static_cast<std::size_t>(roots[static_cast<std::size_t>(value)])];
        interval.last = std::max(interval.last, done[k]);
      }
    }
  }
  std::vector<PlannedBuffer> buffers;
  std::int64_t all_bytes = 0;
  plan.buffer_of.assign(graph.values.size(), -1);
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const ir::Value& value = graph.values[v];
    if (roots[v] != static_cast<ValueId>(v) || !plan.liveness[v].used) continue;
    if (value.source != ir::Source::node) continue;
    PlannedBuffer buffer;
    buffer.bytes = ir::storage_bytes(value.type, value.layout);
    buffer.first = plan.liveness[v].first;
    buffer.last = plan.liveness[v].last;
    all_bytes = ir::sum(all_bytes, static_cast<std::int64_t>(buffer.bytes));
    plan.buffer_of[v] = static_cast<int>(buffers.size());
    buffers.push_back(std::move(buffer));
  }
  const bool is_unaliased =
      !by_phases && static_cast<std::size_t>(all_bytes) <= room.unaliased_step_bytes;
  for (PlannedBuffer& buffer : buffers) {
    if (!is_unaliased && buffer.bytes > room.unaliased_result_bytes) continue;
    buffer.first = 0;
    buffer.last = order.size();
  }
  allow_replacing(graph, roots, order, plan.buffer_of, buffers);
  plan.workspace_of.assign(graph.nodes.size(), -1);
  for (std::size_t k = 0; k < order.size(); ++k) {
    const auto n = static_cast<std::size_t>(order[k]);
    if (room.workspaces[n] == 0) continue;
    plan.workspace_of[n] = static_cast<int>(buffers.size());
    const bool unaliased = room.workspaces[n] <= std::min(kFewBytes, room.unaliased_result_bytes);
    const std::size_t first = unaliased ? 0 : k, last = unaliased ? order.size() : done[k];
    buffers.push_back({room.workspaces[n], first, last, {}, 0});
  }
  plan.arena = plan_arena(std::move(buffers));
  return plan;
}

}  // namespace traingraph::passes
